"""Runs the Dockerfile's steps in a fresh Debian root, where there is no Docker: as root,

    debootstrap --include=python3,python3-venv,ca-certificates bookworm ROOT
    python ops/rehearse.py ROOT

and then a whole `postdate up` as the image's user, on a root that cannot be written to. It is less
than building the image: both stages share the root, and the Python is Debian's (3.11).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_PROJECT = Path(__file__).resolve().parent.parent
_SECONDS = 60
_OF_THE_MACHINE = ("PIP_CERT", "PIP_INDEX_URL")
_IGNORED = shutil.ignore_patterns("__pycache__")


def main(root: Path) -> None:
    # How this machine reaches its package registries is its own affair.
    environ = {name: os.environ[name] for name in _OF_THE_MACHINE if name in os.environ}
    environ["PATH"] = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    folder, user = "/", ""
    for word, rest in instructions((_PROJECT / "ops/Dockerfile").read_text()):
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
    set_ = [f"{name}={value}" for name, value in environ.items()]
    subprocess.run(["chroot", root, "env", "-i", *set_, *command], check=True)


def try_out(root: Path, environ: dict[str, str], user: str) -> None:
    """`postdate up` with nothing to write to but /data and /tmp; its health, asked as the image
    asks it; its end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 9464))  # or another program would answer for it
    health = next(
        rest
        for word, rest in instructions((_PROJECT / "ops/Dockerfile").read_text())
        if word == "HEALTHCHECK"
    ).partition("CMD ")[2]
    [*ask] = re.findall(r'"([^"]*)"', health)
    set_ = " ".join(f"{name}={value}" for name, value in environ.items())
    up = "cd /data; ! touch /etc/x 2>/dev/null || exit 9; exec postdate up --port 28190"
    script = f"""
        mount --bind {root} {root}; mount -o remount,bind,ro {root}
        mount -t proc proc {root}/proc; mount --bind /dev {root}/dev
        mount -t tmpfs tmpfs {root}/tmp
        mount -t tmpfs -o uid={user.partition(":")[0]},mode=0700 tmpfs {root}/data
        exec chroot --userspec={user} {root} env -i {set_} sh -c '{up}'
    """
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-euc", script], start_new_session=True
    )
    try:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end and process.poll() is None:
            asked = subprocess.run(["python3", *ask[1:]], capture_output=True, check=False)
            if asked.returncode == 0:
                print("healthy, on a root that cannot be written to")
                return
            time.sleep(0.5)
        raise SystemExit("It did not become healthy.")
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # unshare itself does not pass it on
        process.wait(_SECONDS)


if __name__ == "__main__":
    # Before anything is written there.
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "usr/bin/python3").exists():
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
