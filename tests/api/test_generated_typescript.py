"""Types that openapi-typescript makes of the OpenAPI document, judged by tsc and used with
openapi-fetch against a real server. `typescript/main.ts` has the expectations."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.customer import Customer

SOURCES = Path(__file__).with_name("typescript")
PATIENCE_S = 120
INSTALL = (
    *("npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"),
    *("--loglevel=error", "--fetch-retries=0", "--fetch-timeout=20000"),
)
# What packages bring along was judged by their makers.
JUDGE = (
    *("--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext"),
    *("--types", "node"),
)

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI"), reason="what generators make of the document is judged with CI=1"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the packages that package.json names; a machine without them skips the test.

    What npm once got is kept beside Python's own packages: to get it takes as long as all else."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} on this machine")
    made = tmp_path_factory.mktemp("typescript")
    for source in SOURCES.iterdir():
        shutil.copy(source, made)
    named = hashlib.sha256((SOURCES / "package.json").read_bytes()).hexdigest()[:16]
    kept, here = Path(sys.prefix) / "typescript" / named / "node_modules", made / "node_modules"
    if not kept.is_dir():
        _install(made)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # another run was faster, or this is another disk
            here.rename(kept)
    if not here.exists():
        here.symlink_to(kept)
    return made


def _install(folder: Path) -> None:
    try:
        done = subprocess.run(
            INSTALL, cwd=folder, timeout=PATIENCE_S, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not get the packages in time")
    if done.returncode:
        pytest.skip(f"npm cannot get the packages: {done.stderr.strip()[-300:]}")


def test_the_types_hold_and_a_client_of_them_works(customer: Customer, folder: Path) -> None:
    credits = customer.credits()
    assert credits >= 3
    programs = folder / "node_modules/.bin"
    document = f"{customer.base_url}/schema/openapi.json"
    run(folder, programs / "openapi-typescript", document, "-o", "schema.ts")
    assert run(folder, programs / "tsc", *JUDGE, "main.ts") == ""
    run(folder, "node", "main.js", customer.base_url, customer.key)
    # Of the created schedules one waits and one was cancelled.
    assert customer.credits() == credits - 1


def run(folder: Path, *command: object) -> str:
    """What a program that must succeed says on stdout."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, timeout=PATIENCE_S, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
