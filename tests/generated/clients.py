"""Makes clients of a running Postdate's OpenAPI document, has their types judged, and uses them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.customer import Customer

HERE = Path(__file__).parent
PATIENCE_S = 300
_INSTALL = "npm install --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error"
_CONFIG = "post_hooks: []\n"  # it would format what it has made


def python(customer: Customer, folder: Path, target_url: str) -> None:
    """Of openapi-python-client; fails where the document means nothing to it."""
    shutil.copy(HERE / "use.py", folder)
    (folder / "config.yml").write_text(_CONFIG)
    programs = Path(sys.executable).parent
    make = ("openapi-python-client", "generate", "--fail-on-warning", "--config", "config.yml")
    where = ("--url", _document(customer), "--meta", "none", "--output-path", "generated_postdate")
    _run(folder, programs / make[0], *make[1:], *where)
    _run(folder, sys.executable, "-m", "mypy", "--strict", "use.py")
    _run(folder, sys.executable, "use.py", customer.base_url, customer.key, target_url)


def openapi_typescript(customer: Customer, folder: Path, target_url: str) -> None:
    _install(folder, "openapi-typescript.ts")
    _run(folder, _program("openapi-typescript"), _document(customer), "-o", "schema.d.ts")
    _judge_and_use(folder, "openapi-typescript", customer, target_url)


def hey_api(customer: Customer, folder: Path, target_url: str) -> None:
    _install(folder, "hey-api.ts")
    # By tsconfig.json it knows how modules find each other.
    _run(folder, _program("openapi-ts"), "-i", _document(customer), "-o", "generated", "--silent")
    _judge_and_use(folder, "hey-api", customer, target_url)


CLIENTS: dict[str, Callable[..., None]] = {
    "openapi-python-client": python,
    "openapi-typescript": openapi_typescript,
    "@hey-api/openapi-ts": hey_api,
}


def _document(customer: Customer) -> str:
    return f"{customer.base_url}/schema/openapi.json"


def _install(folder: Path, source: str) -> None:
    for name in ("package.json", "tsconfig.json", source):
        shutil.copy(HERE / name, folder)
    _run(folder, *_INSTALL.split())


def _judge_and_use(folder: Path, name: str, customer: Customer, target_url: str) -> None:
    _run(folder, _program("tsc"))
    _run(folder, "node", f"{name}.js", customer.base_url, customer.key, target_url)


def _program(name: str) -> str:
    return f"node_modules/.bin/{name}"


def _run(folder: Path, *command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, timeout=PATIENCE_S, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
