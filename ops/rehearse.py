"""Runs the Dockerfile's steps where there is no Docker, and then what the image is for.

    python -m ops.rehearse [ROOT]

ROOT is a fresh Debian, made by `debootstrap --include=python3,python3-venv,ca-certificates bookworm
ROOT`. Without it the steps run on a copy of this machine's own system, which they cannot change: an
overlay in memory. Then `postdate up`, a target and the command line run as the image's user, on a
root that cannot be written to. It is less than building the image: both stages share the root, and
the Python is the system's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ops.installed import request_seen, running

_PROJECT = Path(__file__).resolve().parent.parent
_DOCKERFILE = _PROJECT / "ops/Dockerfile"
_OF_THE_MACHINE = ("PIP_CERT", "PIP_INDEX_URL")
_IGNORED = shutil.ignore_patterns("__pycache__")
_METRICS_PORT = "9464"
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_OVERLAY = """
mount -t tmpfs tmpfs {here}; mkdir {here}/above {here}/work {here}/root
mount -t overlay overlay -o lowerdir=/,upperdir={here}/above,workdir={here}/work {here}/root
mount --rbind /dev {here}/root/dev; mount -t proc proc {here}/root/proc
mount -t tmpfs tmpfs {here}/root/tmp
"""


def main(root: Path) -> None:
    environ, folder, user = {"PATH": _PATH}, "/", ""
    for word, rest in instructions(_DOCKERFILE.read_text()):
        match word:
            case "WORKDIR":
                folder = rest
                (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY" if not rest.startswith("--from"):
                copy(root / folder.lstrip("/"), rest.split())
            case "ENV":
                for pair in shlex.split(rest):
                    name, _, value = pair.partition("=")
                    environ[name] = value.replace(f"${name}", environ.get(name, ""))
            case "USER":
                user = rest
            case "RUN":
                print(f"RUN {rest[:90]}", flush=True)
                inside(root, environ, ["sh", "-euc", f"cd {folder}; {rest}"])
    size = subprocess.run(
        ["du", "-sm", root / "opt/postdate"], capture_output=True, text=True, check=True
    )
    print(f"/opt/postdate has {size.stdout.split()[0]} MB")
    try_out(root, environ, user)


def instructions(text: str) -> list[tuple[str, str]]:
    """Each with its lines joined; comments left out."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def copy(into: Path, words: list[str]) -> None:
    *sources, target = words
    for source in sources:
        found = _PROJECT / source
        if found.is_dir():
            shutil.copytree(found, into / target, dirs_exist_ok=True, ignore=_IGNORED)
        else:
            shutil.copy(found, into / target)


def inside(root: Path, environ: dict[str, str], command: list[str]) -> None:
    # How this machine reaches its package registries is its own affair.
    given = {name: os.environ[name] for name in _OF_THE_MACHINE if name in os.environ}
    quiet = {"PIP_QUIET": "1", "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["chroot", root, *command], env=given | quiet | environ, check=True)


def try_out(root: Path, environ: dict[str, str], user: str) -> None:
    """A request goes through, with nothing to write to but /data and /tmp; the API is healthy,
    asked as the image asks it, but for the port: another program may have that one."""
    script = f"""
        mount --bind {root} {root}; mount -o remount,bind,ro {root}
        mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev
        mount -t tmpfs tmpfs {root}/tmp
        mount -t tmpfs -o uid={user.partition(":")[0]},mode=0700 tmpfs {root}/data
        exec chroot --userspec={user} {root} sh -c '
            cd /data; ! touch /etc/x 2>/dev/null || exit 9; exec "$@"' sh "$@"
    """
    container = ["unshare", "--mount", "--pid", "--fork", "sh", "-euc", script, "sh"]
    health = dict(instructions(_DOCKERFILE.read_text()))["HEALTHCHECK"].partition("CMD ")[2]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    assert f":{_METRICS_PORT}/" in health
    ask = re.findall(r'"([^"]*)"', health.replace(_METRICS_PORT, port))
    environ |= {"POSTDATE_METRICS_PORT": port, "POSTDATE_ALLOW_TARGETS": "127.0.0.0/8"}
    with running([*container, "postdate"], Path("/"), environ) as here:
        request_seen([*container, "postdate"], here, Path("/"))
        eventually(lambda: subprocess.run([*container, *ask], env=environ, check=False))
    print("A request went through, on a root that cannot be written to; healthy.")


def eventually(asked: Callable[[], subprocess.CompletedProcess[bytes]]) -> None:
    for _ in range(20):
        if asked().returncode == 0:
            return
        time.sleep(0.5)
    raise SystemExit("It did not become healthy.")


def in_an_overlay() -> None:
    """In a mount namespace, which takes the overlay along when it ends."""
    if sys.platform != "linux" or os.geteuid() != 0:
        print("The Dockerfile's steps were not rehearsed: that takes root, on Linux.")
        return
    with tempfile.TemporaryDirectory(prefix="postdate-root-") as here:
        again = shlex.join([sys.executable, "-m", "ops.rehearse", f"{here}/root"])
        script = f"{_OVERLAY.format(here=here)}\nexec {again}"
        subprocess.run(["unshare", "--mount", "sh", "-euc", script], cwd=_PROJECT, check=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            in_an_overlay()
        case [root] if (Path(root) / "usr/bin/python3").exists():  # before anything is written
            main(Path(root).resolve())
        case _:
            sys.exit(__doc__)
