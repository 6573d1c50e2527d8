"""What is released: one version, notes that strangers can read, and workflows without a fault."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ops import release
from tests.metrics.catalogue import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROGRAMS = Path(sys.executable).parent
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n{}\n## 0.2.0 - 2026-11-28\n\nNew.\n\n### It\n\n## 0.1.0 - x\n"
)


def test_all_that_is_released_has_one_version_and_news(monkeypatch: pytest.MonkeyPatch) -> None:
    version = release.one_version()
    assert release.notes(version, (ROOT / "CHANGELOG.md").read_text())
    monkeypatch.setenv("RELEASE", f"v{version}")
    assert release.one_version() == version
    monkeypatch.setenv("RELEASE", "v9.9.9")
    with pytest.raises(SystemExit, match=r"v9\.9\.9 is no release"):
        release.one_version()


def test_one_command_writes_the_version_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in release.VERSIONS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('version = "0.0.1"\nother = "0.2.0"\n')
    with pytest.raises(SystemExit, match="The versions differ"):
        release.one_version()
    release.write_version("7.8.9")
    assert release.one_version() == "7.8.9"
    assert release.versions().keys() == release.VERSIONS.keys()
    assert (tmp_path / "pyproject.toml").read_text() == 'version = "7.8.9"\nother = "0.2.0"\n'


def test_the_notes_are_those_of_the_version() -> None:
    assert release.notes("0.2.0", CHANGELOG.format("")) == "New.\n\n### It\n"


def test_news_before_a_release_break_no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELEASE", raising=False)
    assert release.notes("0.2.0", CHANGELOG.format("\n- more\n")) == "- more\n"


@pytest.mark.parametrize(
    ("version", "changelog"),
    [
        ("0.3.0", CHANGELOG.format("")),
        ("0.1.0", CHANGELOG.format("")),
        ("0.2.0", CHANGELOG.format("\n- more\n")),
        ("0.2.0", CHANGELOG.format("").replace("## Unreleased\n", "")),
        ("0.2.0", "# Changelog\n\n## Unreleased\n"),
    ],
    ids=["no heading", "not the newest", "unreleased news", "no place for news", "no news"],
)
def test_a_release_without_its_news_is_refused(
    version: str, changelog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE", f"v{version}")
    with pytest.raises(SystemExit, match="The CHANGELOG has n"):
        release.notes(version, changelog)


@pytest.mark.parametrize(
    ("text", "where", "found"),
    [
        ("[a](docs/x.md#y)", ".", "[a](H/blob/v1/docs/x.md#y)"),
        ("[a](../../docs/x.md)", "clients/python", "[a](H/blob/v1/docs/x.md)"),
        ("![a](docs/x.svg)", ".", "![a](H/raw/v1/docs/x.svg)"),
        ("[![a: b](d/x.png)](d/x.md)", ".", "[![a: b](H/raw/v1/d/x.png)](H/blob/v1/d/x.md)"),
        ("[a](https://a.example/b) [b](#c)", ".", "[a](https://a.example/b) [b](#c)"),
        ("[two\nlines](x.md) and f(x)", ".", "[two\nlines](H/blob/v1/x.md) and f(x)"),
    ],
)
def test_links_of_published_pages_get_an_address(text: str, where: str, found: str) -> None:
    assert release.with_addresses(text, Path(where), "H", "v1") == found


def test_workflows_are_well_formed_and_give_no_stranger_a_way_in() -> None:
    schema = (PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows")
    for command in (schema, (PROGRAMS / "zizmor", "--offline", "--quiet", "--min-severity=medium")):
        done = subprocess.run(
            [*command, *WORKFLOWS], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_published_before_the_tests_and_each_job_may_do_what_it_must() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    reads, signs = {"contents": "read"}, {"id-token": "write"}
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "tests": reads,
        "audit": reads,
        "pypi": signs,
        "npm": signs,
        "image": reads | signs | {"packages": "write"},
        "chart": signs | {"packages": "write"},
        "github": {"contents": "write", "actions": "write"},
    }
    assert jobs["tests"]["uses"] == "./.github/workflows/tests.yml"
    for name in ("pypi", "npm", "image"):
        assert jobs[name]["needs"] == ["tests", "audit"]
    assert jobs["chart"]["needs"] == ["tests", "image"]
    assert set(jobs["github"]["needs"]) == {"tests", "pypi", "npm", "image", "chart"}


def test_the_site_is_published_from_main_alone() -> None:
    """Its environment at GitHub refuses a tag, so that the release asks for it."""
    begins = yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text())[True]
    assert begins["push"] == {"branches": ["main"]}
    assert "workflow_dispatch" in begins
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    [run] = (step["run"] for step in jobs["github"]["steps"] if "run" in step)
    assert "gh workflow run docs.yml" in run
    assert "--ref main" in run
