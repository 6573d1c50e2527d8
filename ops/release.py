"""Builds the release and proves it: wheel and sdist of server and client, into dist/.

    make dist

Wheels are built of the sdists, as packagers do. Then: nothing tracked is missing in
a wheel and nothing else is in it, `twine` takes the metadata, the CHANGELOG speaks of the version,
and in a fresh environment that has the two wheels `postdate` runs, without the checkout. Pip
fetches dependencies and hatchling, and nothing else needs a network.
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
    packages = project(of)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    tracked = set(run("git", "ls-files", "--", *packages, cwd=of).split())
    packed = {each for each in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in each}
    if packed != tracked:
        raise SystemExit(f"{wheel.name}: not as git has it: {sorted(packed ^ tracked)}")
    untyped = [each for each in packages if f"{each}/py.typed" not in packed]
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
