"""Builds the release and proves it: wheel and sdist of server and client, into dist/.

    make dist

Wheels are built of the sdists, as packagers do. Then: nothing tracked is missing in
a wheel and nothing else is in it, `twine` takes the metadata, the CHANGELOG speaks of the version,
and in a fresh environment that has the two wheels `postdate` runs, without the checkout and beside
an application that has modules of the same names. Pip fetches dependencies and hatchling, and
nothing else needs a network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def project(of: Path) -> dict[str, Any]:
    return tomllib.loads((of / "pyproject.toml").read_text())


def build(of: Path) -> Path:
    """The wheel."""
    run(sys.executable, "-m", "build", "--outdir", DIST, of)
    found = project(of)["project"]
    name = f"{found['name'].replace('-', '_')}-{found['version']}"
    assert (DIST / f"{name}.tar.gz").exists()
    return DIST / f"{name}-py3-none-any.whl"


def check_contents(wheel: Path, of: Path) -> None:
    """The packages as git has them, and what describes the distribution."""
    how = project(of)["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages, below = how["packages"], how.get("sources", {})
    tracked = {
        each.replace(room := each.partition("/")[0], below.get(room, room), 1)
        for each in run("git", "ls-files", "--", *packages, cwd=of).split()
    }
    packed = {each for each in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in each}
    if packed != tracked:
        raise SystemExit(f"{wheel.name}: not as git has it: {sorted(packed ^ tracked)}")
    untyped = [each for each in packages if f"{below.get(each, each)}/py.typed" not in packed]
    if untyped:
        raise SystemExit(f"{wheel.name}: no py.typed in {', '.join(untyped)}")


def check_changelog(version: str) -> None:
    """A version that has its heading has all of its news there; until then they are unreleased."""
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if headings[0] not in {"Unreleased", version, f"[{version}]"}:
        raise SystemExit(f"The CHANGELOG begins with {headings[0]}, and this is {version}.")
    tag = os.environ.get("RELEASE", "")
    if tag and (tag.removeprefix("v") != version or headings[0] == "Unreleased"):
        raise SystemExit(f"{tag} is no release of {version} with a heading of its own.")


def try_out(wheels: list[Path]) -> None:
    """As `pipx run` does: an environment of its own, and no checkout in sight."""
    with tempfile.TemporaryDirectory(prefix="postdate-dist-") as home:
        venv.create(home, with_pip=True)
        python = Path(home) / "bin/python"
        run(python, "-m", "pip", "install", "--quiet", *wheels)
        print(run(Path(home) / "bin/postdate", "--version", cwd=Path(home)), end="")
        run(Path(home) / "bin/postdate", "bench", "--seconds", "1", cwd=Path(home))
        run(python, "-c", "import postdate; postdate.AsyncPostdate", cwd=Path(home))
        try_beside_an_application(Path(home))


def try_beside_an_application(home: Path) -> None:
    """An application has modules of our names, and both find their own: `up`, and a worker's
    children."""
    application = home / "application"
    for name in ("api.py", "worker/__init__.py", "scheduler/__init__.py", "cli/__init__.py"):
        (application / name).parent.mkdir(parents=True, exist_ok=True)
        (application / name).write_text("OWN = True\n")
    os.environ["PYTHONPATH"] = str(application)
    ours = "import api, cli, scheduler, worker; assert api.OWN and cli.OWN and worker.OWN"
    run(home / "bin/python", "-c", f"{ours} and scheduler.OWN", cwd=application)
    data_dir = home / "data"
    os.environ["POSTDATE_METRICS_PORT"] = "0"
    os.environ["POSTDATE_REDIS_URL"] = f"unix://{data_dir}/valkey.sock"
    up = ("up", "--port", "0", "--data-dir", str(data_dir))
    with (
        serving(home, *up, without="POSTDATE_REDIS_URL"),
        serving(home, "worker", "--processes", "2"),
    ):
        pass


@contextmanager
def serving(home: Path, *arguments: str, without: str = "") -> Iterator[None]:
    """A command that says that it is ready, and ends with status 0."""
    environment = {name: text for name, text in os.environ.items() if name != without}
    command = [str(home / "bin/postdate"), *arguments]
    with subprocess.Popen(
        command, cwd=home / "application", env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "ready" in line:
                break
        yield
        process.terminate()
        process.stdout.read()
    if process.returncode:
        raise SystemExit(f"postdate {arguments[0]} ended with status {process.returncode}.")


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    check_changelog(project(ROOT)["project"]["version"])
    wheels = []
    for of in (ROOT / "clients/python", ROOT):
        wheel = build(of)
        check_contents(wheel, of)
        wheels.append(wheel)
    print(run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir()), end="")
    try_out(wheels)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(__doc__)
    main()
