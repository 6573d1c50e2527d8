"""Makes each peer an environment of its own, with pinned versions, below a cache folder.

The folder is `.peers` in the checkout (git ignores it), or PEERS_CACHE. An environment
is made once for each content of its pins; nothing of it becomes a dependency of Postdate.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PINS = Path(__file__).parent / "pins"
CACHE = Path(os.environ.get("PEERS_CACHE") or Path(__file__).parents[2] / ".peers")


class Unavailable(Exception):
    """A peer cannot be had on this machine; the sentence says why."""


def python(peer: str) -> Path:
    """The interpreter of a Python peer's virtual environment."""
    pins = PINS / f"{peer}.txt"
    home = _home(peer, [pins])
    if not (home / "made").exists():
        _fresh(home)
        _run([sys.executable, "-m", "venv", str(home)])
        install = [str(home / "bin/python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        _run([*install, "--disable-pip-version-check", "-r", str(pins)])
        (home / "made").touch()
    return home / "bin/python"


def node_modules(peer: str) -> Path:
    """The modules of a peer that runs on Node.js."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise Unavailable("Node.js and npm are not installed")
    pins = PINS / f"{peer}.json"
    home = _home(peer, [pins])
    if not (home / "made").exists():
        _fresh(home)
        shutil.copy(pins, home / "package.json")
        install = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit"]
        _run([*install, "--no-fund", "--loglevel=error"], cwd=home)
        (home / "made").touch()
    return home / "node_modules"


def redis_server(oldest: tuple[int, int]) -> Path | None:
    """PEERS_REDIS, else `redis-server` on PATH, if it is a Redis of that version or newer."""
    found = os.environ.get("PEERS_REDIS") or shutil.which("redis-server")
    if found is None:
        return None
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"Redis server v=(\d+)\.(\d+)", done.stdout)
    newer = version is not None and (int(version[1]), int(version[2])) >= oldest
    return Path(found) if newer else None


def versions(peer: str, names: tuple[str, ...]) -> dict[str, str]:
    """The pinned versions of the named packages, in their order."""
    pins = PINS / f"{peer}.txt"
    if pins.exists():
        pinned = dict(re.findall(r"^(\S+)==(\S+)$", pins.read_text(), re.M))
    else:
        pinned = json.loads((PINS / f"{peer}.json").read_text())["dependencies"]
    return {name: pinned[name] for name in names}


def _home(peer: str, pins: list[Path]) -> Path:
    """Another content of the pins is another folder."""
    seen = hashlib.sha256(b"".join(path.read_bytes() for path in pins))
    seen.update(sys.version.encode())
    return CACHE / f"{peer}-{seen.hexdigest()[:12]}"


def _fresh(home: Path) -> None:
    print(f"Making {home}…", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
