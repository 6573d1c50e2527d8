"""The npm package, unpacked from its tarball in a folder of a user."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.client.typescript.conftest import PACKAGE, program, run
from tests.support import children
from tests.support.servers import (
    Customer,
    Deployment,
    Receiver,
    ValkeyProcess,
    free_port,
    until,
)

CONSUMER = PACKAGE / "test/consumer"
MODULES = CONSUMER / "node_modules"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES.exists(), reason="needs Bun, Deno and workerd: make runtimes"),
]


@pytest.fixture(scope="module")
def tarball(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("postdate")
    run(package, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder))
    [made] = folder.glob("*.tgz")
    return made


@pytest.fixture(scope="module")
def folder(package: Path, tarball: Path) -> Path:
    """A user's folder, with the package and compiled programs that use it."""
    made = tarball.parent / "user"
    modules = made / "node_modules"
    (modules / "postdate").mkdir(parents=True)
    run(modules / "postdate", "tar", "-xzf", str(tarball), "--strip-components", "1")
    for name in ("@types", "redis"):
        (modules / name).symlink_to(package / "node_modules" / name)
    (modules / "@cloudflare").symlink_to(MODULES / "@cloudflare")
    for each in [*CONSUMER.glob("*.ts"), *CONSUMER.glob("tsconfig*.json")]:
        shutil.copy(each, made)
    # Deno imports only packages that this file names.
    known = {"type": "module", "dependencies": {"postdate": "*"}}
    (made / "package.json").write_text(json.dumps(known))
    readme = (package / "README.md").read_text()
    [seen] = re.findall(r"```ts\n([^`]*: SeenStore = .*?)```", readme, re.DOTALL)
    (made / "seen.ts").write_text(f"{seen}export {{ redis, seen }};\n")
    run(made, str(package / "node_modules/.bin/tsc"))
    return made


@pytest.fixture(scope="module")
def customer() -> Iterator[Customer]:
    with Deployment() as running:
        running.api()
        running.worker()
        yield running.customer()


@pytest.fixture(scope="module")
def secret(customer: Customer) -> str:
    [found] = customer.get("/signing").json()["secrets"]
    return str(found["secret"])


@pytest.fixture(scope="module")
def given(customer: Customer, secret: str) -> dict[str, Any]:
    """A schedule's own request and its callback, as a real Postdate sent them."""
    with Receiver() as target:
        body = {"targetBody": {"ü": "😀"}, "reference": "order-17"}
        customer.schedule(f"{target.url}/own", callbackUrl=f"{target.url}/ended", **body)
        sent = [target.wait_for(1, path)[0] for path in ("/own", "/ended")]
    return {
        "url": customer.base_url,
        "apiKey": customer.key,
        "secret": secret,
        "sent": [{"headers": each.headers, "body": each.body.decode()} for each in sent],
    }


def test_the_package_has_only_the_files_that_users_need(tarball: Path) -> None:
    names = run(tarball.parent, "tar", "-tzf", str(tarball)).split()
    odd = [name for name in names if not re.fullmatch(r"package/dist/\w+(\.d\.ts|\.js)", name)]
    assert sorted(odd) == ["package/LICENSE", "package/README.md", "package/package.json"]
    made = {name.partition(".")[0] for name in names if name.startswith("package/dist/")}
    assert made == {f"package/dist/{each.stem}" for each in PACKAGE.glob("src/*.ts")}


def test_publint_finds_nothing(tarball: Path) -> None:
    assert "All good!" in program(CONSUMER, "publint", "run", "--strict", str(tarball))


def test_importers_find_its_types(tarball: Path) -> None:
    """It has only ECMAScript modules, so the profile leaves out `require`."""
    words = ("--profile", "esm-only", "--format", "json")
    said = json.loads(program(CONSUMER, "attw", *words, str(tarball)))
    assert said["analysis"]["entrypoints"].keys() == {".", "./package.json"}


def test_a_bundled_worker_compiles_too(package: Path, folder: Path) -> None:
    """Both this and the programs of `folder`, for Node.js, do without the types of a browser."""
    run(folder, str(package / "node_modules/.bin/tsc"), "--project", "tsconfig.worker.json")


def _bun() -> list[str]:
    """Installed without scripts, so that no program is linked in node_modules/.bin."""
    [found] = MODULES.glob("@oven/bun-*/bin/bun")
    return [str(found), "run.js"]


def _deno() -> list[str]:
    may = ("--allow-net=127.0.0.1", "--allow-env", "--no-remote", "--node-modules-dir=manual")
    return ["env", "DENO_NO_UPDATE_CHECK=1", f"{MODULES}/.bin/deno", "run", *may, "run.js"]


RUNTIMES: dict[str, Callable[[], list[str]]] = {
    "node": lambda: ["node", "run.js"],
    "bun": _bun,
    "deno": _deno,
    "workerd": lambda: ["node", str(CONSUMER / "workerd.mjs")],
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_it_verifies_receives_and_schedules(folder: Path, given: dict[str, Any], name: str) -> None:
    told = json.loads(run(folder, *RUNTIMES[name](), json.dumps(given)))
    refused = [401, "No signature fits"]
    own, callback = given["sent"]
    assert own["body"] == '{"ü":"😀"}'
    ended = json.loads(callback["body"])
    assert told == [
        *[own["body"], 204, "object", *refused],
        *[ended["type"], "order-17", 204, "object", *refused],
        "https://example.com/",
    ]


def test_the_next_attempt_does_the_work_of_a_receiver_that_died_once(
    folder: Path, customer: Customer, secret: str
) -> None:
    notes, port, store_port = folder / "notes.txt", free_port(), free_port()
    notes.touch()
    with ValkeyProcess(port=store_port) as store, ExitStack() as stack:

        def start(*dies: str) -> subprocess.Popen[bytes]:
            command = ["node", "receiver.js", str(port), secret, str(notes), *dies]
            environment = {**os.environ, "REDIS_URL": str(store.tcp_url)}
            made = children.start(command, forked=False, cwd=folder, env=environment)
            stack.callback(lambda: (made.kill(), made.wait()))
            until(lambda: reachable(port), "the receiver listens")
            return made

        target = f"http://127.0.0.1:{port}/"
        first = start("dies")
        retry = {"retries": 20, "retryDelays": ["1s"]}
        made = customer.schedule(target, callbackUrl=target, **retry)
        until(lambda: first.poll() is not None, "the receiver dies")
        start()
        path = f"/schedule/{made}"

        def delivered() -> bool:
            callback = customer.get(path).json()["callback"]
            return callback is not None and callback["status"] == "delivered"

        until(delivered)
        assert customer.call(f"{path}/callback").status_code == 202
        until(delivered)
    own, callback = (made.replace("sch_", kind) for kind in ("inv_", "cbk_"))
    # Attempts in between were refused a connection, or answered with a 503.
    words = [f"{own} began", f"{own} began", f"{own} ended"]
    assert notes.read_text().splitlines() == [*words, f"{callback} began", f"{callback} ended"]
    assert customer.outcome(made)["statusCode"] == 204


def reachable(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
