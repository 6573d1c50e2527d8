"""The TypeScript client: its own tests by Node's runner, its types, and how large it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.client.typescript.conftest import PACKAGE, Node, program
from tests.support.commands import own_account
from tests.support.processes import PostdateProcess

TESTS = sorted(each.name for each in (PACKAGE / "test").glob("*.test.ts"))
MOST_BYTES = 12 * 1000


@pytest.mark.parametrize("name", TESTS)
def test_its_own_tests_pass(node: Node, postdate_up: PostdateProcess, name: str) -> None:
    said = node("--import", "tsx", "--test", f"test/{name}", **own_account(postdate_up, 2000))
    assert "\n# fail 0\n" in said
    assert "\n# pass 0\n" not in said


@pytest.mark.slow
def test_its_types_and_its_format_hold(package: Path) -> None:
    program(package, "tsc")
    program(package, "prettier", "--check", "src", "test", "!src/schema.ts", "package.json")


def test_it_is_small(package: Path, tmp_path: Path) -> None:
    """All that can be imported together, minified and compressed, as a browser would get it."""
    manifest = json.loads((package / "package.json").read_text())
    entries = [each for each in manifest["exports"].values() if each.endswith(".js")]
    imports = "".join(f"export * as e{n} from {str(package / e)!r};" for n, e in enumerate(entries))
    whole = tmp_path / "all.js"
    whole.write_text(imports)
    options = ("--bundle", "--minify", "--format=esm", "--platform=node")
    minified = program(package, "esbuild", *options, str(whole))
    size = len(gzip.compress(minified.encode(), mtime=0))
    assert 1000 < size < MOST_BYTES, size


def test_it_needs_nothing_else_and_says_its_version(package: Path) -> None:
    manifest = json.loads((package / "package.json").read_text())
    assert not manifest.keys() & {"dependencies", "peerDependencies", "optionalDependencies"}
    assert all(version[0].isdigit() for version in manifest["devDependencies"].values())
    assert f'VERSION = "{manifest["version"]}"' in (package / "src/calls.ts").read_text()
