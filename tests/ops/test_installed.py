"""Each file of a release, installed in an empty place and used from there. It needs no network.

The environment of the wheels has their declared dependencies and nothing else: those are links to
this one's. So a file or a dependency that is missing fails here; that pip finds the dependencies at
a registry, `make dist` shows.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ops import release
from ops.installed import Running, arrived, request_seen, running
from tests.metrics.catalogue import ROOT
from tests.ops.test_chart import ALL_ON, HAS_GO, rendered
from tests.programs import lack_of

pytestmark = pytest.mark.slow
OURS = {"postdate", "postdate-client"}
REPOSITORY = "Acme/Postdate"
HOME = f"https://github.com/{REPOSITORY}"
HAS_NPM = shutil.which("npm") is not None
HAS_COMPILER = HAS_NPM and (ROOT / release.NPM / "node_modules").exists()
CREATE = """
import { Postdate } from "postdate";
const [targetUrl] = process.argv.slice(2);
await new Postdate().schedule({ targetUrl, delay: "1s", body: { from: "npm" } });
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As a workflow builds it, which knows its repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        patch.delenv("RELEASE", raising=False)
        patch.setattr(release, "DIST", tmp_path_factory.mktemp("dist"))
        release.build_all(npm=HAS_COMPILER)
        yield release.DIST


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("server"), dist.glob("*.whl"))


@pytest.fixture(scope="module")
def here(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running([installed / "bin/postdate"], tmp_path_factory.mktemp("home")) as found:
        yield found


def environment(home: Path, wheels: Iterable[Path]) -> Path:
    """A virtual environment with the wheels, and with what they declare."""
    venv.create(home, with_pip=False)
    site = Path(
        subprocess.check_output(
            [home / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            text=True,
        ).strip()
    )
    wheels = list(wheels)
    for name in closure(declared(wheels)):
        found = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            target, link = Path(str(found.locate_file(top))), site / top
            if not link.exists():
                link.symlink_to(target)
            assert link.resolve() == target.resolve(), f"{name} shares {top} with another one"
    pip = [sys.executable, "-m", "pip", "--python", home, "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", *wheels], check=True)
    subprocess.run([*pip, "check"], check=True)
    return home


def declared(wheels: Iterable[Path]) -> list[Requirement]:
    found = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
            metadata = Parser().parsestr(archive.read(name).decode())
        found += [Requirement(each) for each in metadata.get_all("Requires-Dist", [])]
    return found


def closure(requirements: list[Requirement]) -> set[str]:
    """The names of all distributions that these take, and theirs."""
    known: dict[str, set[str]] = {}
    left = [(each, "") for each in requirements]
    while left:
        requirement, extra = left.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = requirement.name.lower().replace("_", "-")
        extras = {"", *requirement.extras} - known.get(name, set())
        if name in OURS or not extras:
            continue
        known.setdefault(name, set()).update(extras)
        more = [Requirement(each) for each in importlib.metadata.requires(name) or ()]
        left += [(each, extra) for each in more for extra in extras]
    return set(known)


def test_the_wheels_bring_all_that_a_request_takes(
    here: Running, installed: Path, tmp_path: Path
) -> None:
    request_seen([installed / "bin/postdate"], here, tmp_path)
    where = "import postdate_server, postdate; print(postdate_server.__file__, postdate.__file__)"
    python = [installed / "bin/python", "-c", where]
    said = subprocess.check_output(python, cwd=tmp_path, text=True).split()
    assert all(Path(each).is_relative_to(installed) for each in said)
    assert str(ROOT) not in subprocess.check_output(
        [installed / "bin/python", "-c", "import sys; print(sys.path)"], cwd=tmp_path, text=True
    )


def test_the_client_is_installed_without_the_server(
    here: Running, dist: Path, tmp_path: Path
) -> None:
    alone = environment(tmp_path / "client", dist.glob("postdate_client-*.whl"))
    create = f"Postdate().schedule({here.target_url + '/client'!r}, in_=0.2, json={{}})"
    program = f"from postdate import Postdate; {create}; import postdate_server"
    done = subprocess.run(
        [alone / "bin/python", "-c", program],
        cwd=tmp_path,
        env=here.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'postdate_server'\n")
    arrived(here, "/client")


@pytest.mark.skipif(not HAS_NPM, reason=lack_of("Node.js 20"))
@pytest.mark.skipif(HAS_NPM and not HAS_COMPILER, reason="needs a compiler: make typescript")
def test_the_package_of_npm_is_imported_in_an_empty_project(
    here: Running, dist: Path, tmp_path: Path
) -> None:
    [packed] = dist.glob("npm/*.tgz")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    install = ("npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run([*install, packed], cwd=tmp_path, check=True, timeout=60)
    assert [each.name for each in (tmp_path / "node_modules").glob("[!.]*")] == ["postdate"]
    # By this npm proves where the package was built.
    told = json.loads((tmp_path / "node_modules/postdate/package.json").read_text())
    assert told["repository"]["url"] == f"git+{HOME}.git"
    (tmp_path / "create.js").write_text(CREATE)
    command = ["node", "create.js", f"{here.target_url}/npm"]
    subprocess.run(command, cwd=tmp_path, env=here.environ, check=True, timeout=60)
    arrived(here, "/npm")


@pytest.mark.skipif(shutil.which("helm") is None and not HAS_GO, reason=lack_of("helm or Go"))
def test_the_packed_chart_renders_and_runs_the_image_of_its_version(
    dist: Path, tmp_path: Path
) -> None:
    [packed] = dist.glob("chart/*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    done, plain = rendered(tmp_path, tmp_path / "postdate", **ALL_ON), rendered(tmp_path, **ALL_ON)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout.replace(
        'image: "postdate:', 'image: "ghcr.io/acme/postdate:'
    )
    images = set(re.findall(r'image: "(.+)"', done.stdout))
    assert images == {f"ghcr.io/acme/postdate:{release.one_version()}"}


def test_what_strangers_read_has_addresses(dist: Path) -> None:
    """Registries show links as they are."""
    for wheel in dist.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
            text = archive.read(name).decode()
        assert f"Project-URL: Source, {HOME}\n" in text
        assert "](docs/" not in text
        assert "](../" not in text
    notes = (dist / "notes.md").read_text()
    assert f"({HOME}/blob/v{release.one_version()}/docs/" in notes
    assert "](docs/" not in notes
