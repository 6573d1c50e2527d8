"""Makes clients of a running Postdate's OpenAPI document, has their types judged, and uses them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.customer import Customer

HERE = Path(__file__).parent
PATIENCE_S = 300
_INSTALL = (
    "npm install --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error "
    "--fetch-retry-maxtimeout=10000"
)
_CONFIG = "post_hooks: []\n"  # it would format what it has made


def python(customer: Customer, folder: Path, target_url: str) -> None:
    """Of openapi-python-client; fails where the document means nothing to it."""
    shutil.copy(HERE / "use.py", folder)
    (folder / "config.yml").write_text(_CONFIG)
    programs = Path(sys.executable).parent
    make = ("openapi-python-client", "generate", "--fail-on-warning", "--config", "config.yml")
    where = ("--url", _document(customer), "--meta", "none", "--output-path", "generated_postdate")
    run(folder, programs / make[0], *make[1:], *where)
    run(folder, sys.executable, "-m", "mypy", "--strict", "use.py")
    run(folder, sys.executable, "use.py", customer.base_url, customer.key, target_url)


def openapi_typescript(customer: Customer, folder: Path, target_url: str) -> None:
    _install_with_compiler(folder, "openapi-typescript", "openapi-fetch")
    run(folder, program("openapi-typescript"), _document(customer), "-o", "schema.d.ts")
    _judge_and_use(folder, "openapi-typescript", customer, target_url)


def hey_api(customer: Customer, folder: Path, target_url: str) -> None:
    _install_with_compiler(folder, "@hey-api/openapi-ts")
    # By tsconfig.json it knows how modules find each other.
    run(folder, program("openapi-ts"), "-i", _document(customer), "-o", "generated", "--silent")
    _judge_and_use(folder, "hey-api", customer, target_url)


CLIENTS: dict[str, Callable[..., None]] = {
    "openapi-python-client": python,
    "openapi-typescript": openapi_typescript,
    "@hey-api/openapi-ts": hey_api,
}


def _document(customer: Customer) -> str:
    return f"{customer.base_url}/schema/openapi.json"


def _install_with_compiler(folder: Path, *names: str) -> None:
    shutil.copy(HERE / "tsconfig.json", folder)
    install(folder, *names, "typescript", "@types/node")


def install(folder: Path, *names: str) -> None:
    """These of npm's packages, in the versions of package.json."""
    made = json.loads((HERE / "package.json").read_text())
    made["dependencies"] = {name: made["dependencies"][name] for name in names}
    (folder / "package.json").write_text(json.dumps(made))
    run(folder, *_INSTALL.split())


def _judge_and_use(folder: Path, name: str, customer: Customer, target_url: str) -> None:
    shutil.copy(HERE / f"{name}.ts", folder)
    run(folder, program("tsc"))
    run(folder, "node", f"{name}.js", customer.base_url, customer.key, target_url)


def program(name: str) -> str:
    return f"node_modules/.bin/{name}"


def run(folder: Path, *command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, timeout=PATIENCE_S, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
