"""Builds the release into dist/, and proves it.

    make dist                               # pip fetches dependencies; all else needs no network
    python -m ops.release --version 0.3.0   # writes the version wherever it stands

Server and client as wheels and sdists, the client of npm, the chart, the list of what is in an
installed server, and the notes of the release. Wheels are built of the sdists, as packagers do.
Then: nothing tracked is missing in a wheel and nothing else is in it, `twine` takes the metadata,
and in a fresh environment that has the two wheels `postdate` runs, without the checkout and beside
an application that has modules of the same names.

Two variables come from the workflow. RELEASE is the tag, which must be of this version.
GITHUB_REPOSITORY says where links of published pages lead to, and whose image the chart runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

from ops.installed import request_seen, running, serving, until

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CLIENT, NPM, CHART = "clients/python", "clients/typescript", "ops/chart"
# Where the version stands; a pattern may match more than once.
VERSIONS = {
    "pyproject.toml": r'^version = "(.+)"$',
    f"{CLIENT}/pyproject.toml": r'^version = "(.+)"$',
    f"{NPM}/package.json": r'^  "version": "(.+)",$',
    f"{NPM}/src/calls.ts": r'^export const VERSION = "(.+)";$',
    f"{CHART}/Chart.yaml": r'^(?:v|appV)ersion: "?([^"\n]+)"?$',
}
_PUBLISHED = ("README.md", "CHANGELOG.md", f"{CLIENT}/README.md", f"{NPM}/README.md")
_LINK = re.compile(r"(!?)(\[[^][]*\]|\[!\[[^][]*\]\([^)]*\)\])\((?!https?:|#|mailto:)([^)]+)\)")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def versions() -> dict[str, set[str]]:
    """By file, each version that stands there."""
    texts = {name: (ROOT / name).read_text() for name in VERSIONS}
    return {name: set(re.findall(VERSIONS[name], texts[name], re.MULTILINE)) for name in texts}


def write_version(version: str) -> None:
    for name, pattern in VERSIONS.items():
        text = (ROOT / name).read_text()
        (ROOT / name).write_text(
            re.sub(pattern, lambda found: found[0].replace(found[1], version), text, flags=re.M)
        )


def one_version() -> str:
    """The version of all that is released."""
    found = versions()
    if len(set.union(*found.values())) != 1:
        raise SystemExit(f"The versions differ: {found}")
    [version] = found["pyproject.toml"]
    tag = os.environ.get("RELEASE", "")
    if tag and tag != f"v{version}":
        raise SystemExit(f"The tag {tag} is no release of {version}.")
    return version


def notes(version: str, changelog: str) -> str:
    """What the CHANGELOG says of the version; before a release what it has above that, if anything.
    Raises SystemExit where the version is not its newest, or where a tag leaves news above it."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    (heading, _, news), newest = (each.partition("\n") for each in (*sections, "", "")[:2])
    if heading.strip() != "Unreleased" or not newest[0].startswith(f"{version} "):
        raise SystemExit(f"The CHANGELOG has no heading Unreleased and {version} below it.")
    if news.strip() and os.environ.get("RELEASE"):
        raise SystemExit(f"The CHANGELOG has news that are not of {version}.")
    return (news.strip() or newest[2].strip()) + "\n"


def stage(into: Path, version: str, repository: str) -> None:
    """What git has, and nothing else of this checkout. With a repository, it has its address where
    strangers read it: pages of registries show links as they are."""
    for name in run("git", "ls-files").splitlines():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, into / name, follow_symlinks=False)
    if not repository:
        return
    home = f"https://github.com/{repository}"
    for name in _PUBLISHED:
        page = into / name
        page.write_text(with_addresses(page.read_text(), Path(name).parent, home, f"v{version}"))
    for folder in (".", CLIENT):
        with (into / folder / "pyproject.toml").open("a") as project:
            project.write(f'\n[project.urls]\nSource = "{home}"\n')
    npm = into / NPM / "package.json"
    source = {"type": "git", "url": f"git+{home}.git", "directory": NPM}
    npm.write_text(json.dumps(json.loads(npm.read_text()) | {"repository": source}, indent=2))
    values = into / CHART / "values.yaml"
    image = f"  repository: ghcr.io/{repository.lower()}\n"
    values.write_text(values.read_text().replace("  repository: postdate\n", image))


def with_addresses(text: str, folder: Path, home: str, tag: str) -> str:
    """Its relative links with an address. Pictures come from where GitHub has files as they are."""

    def address(found: re.Match[str]) -> str:
        shown, linked, to = found.groups()
        path = os.path.normpath(folder / to.partition("#")[0])
        anchor = "".join(to.partition("#")[1:])
        linked = _LINK.sub(address, linked[1:-1]) if linked.startswith("[![") else linked[1:-1]
        return f"{shown}[{linked}]({home}/{'raw' if shown else 'blob'}/{tag}/{path}{anchor})"

    return _LINK.sub(address, text)


def build(of: Path) -> Path:
    """The wheel."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, of)
    found = tomllib.loads((of / "pyproject.toml").read_text())["project"]
    name = f"{found['name'].replace('-', '_')}-{found['version']}"
    assert (DIST / f"{name}.tar.gz").exists()
    return DIST / f"{name}-py3-none-any.whl"


def check_contents(wheel: Path, of: Path) -> None:
    """The packages as git has them, and what describes the distribution."""
    how: dict[str, Any] = tomllib.loads((of / "pyproject.toml").read_text())
    how = how["tool"]["hatch"]["build"]["targets"]["wheel"]
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


def pack_chart(staged: Path, version: str) -> Path:
    """As `helm package` does, which would need helm."""
    (DIST / "chart").mkdir(parents=True, exist_ok=True)
    packed = DIST / "chart" / f"postdate-{version}.tgz"
    with tarfile.open(packed, "w:gz", dereference=True) as archive:
        archive.add(staged / CHART, "postdate", filter=_of_nobody)
    return packed


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def pack_npm(staged: Path) -> Path:
    """With the compiler that the checkout has."""
    (DIST / "npm").mkdir(parents=True, exist_ok=True)
    (staged / NPM / "node_modules").symlink_to(ROOT / NPM / "node_modules")
    said = run("npm", "pack", "--silent", "--pack-destination", DIST / "npm", cwd=staged / NPM)
    return DIST / "npm" / said.split()[-1]


def build_all(*, npm: bool = True) -> list[Path]:
    """Everything but the list of what is inside. Returns the wheels."""
    version = one_version()
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="postdate-release-") as folder:
        staged = Path(folder)
        stage(staged, version, os.environ.get("GITHUB_REPOSITORY", ""))
        wheels = []
        for of in (CLIENT, "."):
            wheels.append(build(staged / of))
            check_contents(wheels[-1], ROOT / of)
        pack_chart(staged, version)
        if npm:
            pack_npm(staged)
        (DIST / "notes.md").write_text(notes(version, (staged / "CHANGELOG.md").read_text()))
    return wheels


def try_out(wheels: list[Path]) -> None:
    """As `pipx run` does: an environment of its own, and no checkout in sight."""
    with tempfile.TemporaryDirectory(prefix="postdate-dist-") as folder:
        home = Path(folder)
        venv.create(home, with_pip=True)
        python, postdate = home / "bin/python", home / "bin/postdate"
        run(python, "-m", "pip", "install", "--quiet", *wheels)
        inside = ("environment", "--output-file", DIST / "sbom.cdx.json", python)
        run(sys.executable, "-m", "cyclonedx_py", *inside)
        print(run(postdate, "--version", cwd=home), end="")
        run(postdate, "bench", "--seconds", "1", cwd=home)
        run(python, "-c", "import postdate; postdate.AsyncPostdate", cwd=home)
        try_beside_an_application(home)


def try_beside_an_application(home: Path) -> None:
    """An application has modules of our names, and both find their own: `up`, and a worker's
    children."""
    application = home / "application"
    for name in ("api.py", "worker/__init__.py", "scheduler/__init__.py", "cli/__init__.py"):
        (application / name).parent.mkdir(parents=True, exist_ok=True)
        (application / name).write_text("OWN = True\n")
    ours = "import api, cli, scheduler, worker; assert api.OWN and cli.OWN and worker.OWN"
    os.environ["PYTHONPATH"] = str(application)
    run(home / "bin/python", "-c", f"{ours} and scheduler.OWN", cwd=application)
    postdate, data = home / "bin/postdate", home / "data"
    environ = {**os.environ, "POSTDATE_DATA_DIR": str(data), "POSTDATE_METRICS_PORT": "0"}
    with running([postdate], application, environ) as here:
        request_seen([postdate], here, application)
        store = {**environ, "POSTDATE_REDIS_URL": f"unix://{data}/valkey.sock"}
        worker = (postdate, "worker", "--json", "--processes", "2")
        with serving(worker, application, store) as lines:
            until("ready", lines)


def main() -> None:
    wheels = build_all()
    distributions = [*wheels, *DIST.glob("*.tar.gz")]
    print(run(sys.executable, "-m", "twine", "check", "--strict", *distributions), end="")
    try_out(wheels)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            main()
        case ["--version", version]:
            write_version(version)
        case _:
            sys.exit(__doc__)
