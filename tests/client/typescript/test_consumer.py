"""The npm package as users get it: unpacked from its tarball, in a folder of its own."""

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

from tests.support import children
from tests.support.processes import ROOT
from tests.support.servers import (
    Customer,
    Deployment,
    Receiver,
    ValkeyProcess,
    free_port,
    until,
)

CLIENT = ROOT / "clients/typescript"
CONSUMER = CLIENT / "test/consumer"
MODULES = CONSUMER / "node_modules"
BIN, CLIENT_BIN = MODULES / ".bin", CLIENT / "node_modules/.bin"
PATIENCE_S = 120

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MODULES.exists(), reason="needs the consumer's packages: make npm-packages"
    ),
]


def run(folder: Path, *command: object) -> str:
    """What it prints."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, "DENO_NO_UPDATE_CHECK": "1"},
        timeout=PATIENCE_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made in a copy: other tests may build the client at the same time."""
    folder = tmp_path_factory.mktemp("postdate")
    copy = folder / "client"
    shutil.copytree(CLIENT, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "test"))
    (copy / "node_modules").symlink_to(CLIENT / "node_modules")
    run(copy, "npm", "pack", "--silent", "--pack-destination", folder)
    [made] = folder.glob("*.tgz")
    return made


@pytest.fixture(scope="module")
def folder(tarball: Path) -> Path:
    """Of a user, whose programs use the package."""
    made = tarball.parent / "user"
    package = made / "node_modules/postdate"
    package.mkdir(parents=True)
    run(made, "tar", "-xzf", tarball, "-C", package, "--strip-components", 1)
    for name in ("@types", "redis"):
        (made / "node_modules" / name).symlink_to(CLIENT / "node_modules" / name)
    for each in [*CONSUMER.glob("*.ts"), CONSUMER / "tsconfig.json"]:
        shutil.copy(each, made)
    # Deno imports what it names.
    known = {"type": "module", "dependencies": {"postdate": "*"}}
    (made / "package.json").write_text(json.dumps(known))
    readme = (CLIENT / "README.md").read_text()
    [seen] = re.findall(r"```ts\n([^`]*: SeenStore = .*?)```", readme, re.DOTALL)
    (made / "seen.ts").write_text(f"{seen}export {{ redis, seen }};\n")
    run(made, CLIENT_BIN / "tsc")
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
    """What a real Postdate sent: a schedule's own request, and its callback."""
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


def test_the_package_has_what_runs_and_no_more(tarball: Path) -> None:
    names = run(tarball.parent, "tar", "-tzf", tarball).split()
    odd = [name for name in names if not re.fullmatch(r"package/dist/\w+(\.d\.ts|\.js)", name)]
    assert sorted(odd) == ["package/LICENSE", "package/README.md", "package/package.json"]
    made = {name.partition(".")[0] for name in names if name.startswith("package/dist/")}
    assert made == {f"package/dist/{each.stem}" for each in CLIENT.glob("src/*.ts")}


def test_publint_finds_nothing(tarball: Path) -> None:
    assert "All good!" in run(tarball.parent, BIN / "publint", "run", "--strict", tarball)


def test_its_types_are_found_by_whatever_imports_it(tarball: Path) -> None:
    """The package has modules of ECMAScript alone, so that those who `require` it are left out."""
    words = ("--profile", "esm-only", "--format", "json")
    said = json.loads(run(tarball.parent, BIN / "attw", *words, tarball))
    assert said["analysis"]["entrypoints"].keys() == {".", "./package.json"}


@pytest.mark.parametrize(
    ("module", "resolution", "lib"),
    [("nodenext", "nodenext", "es2022"), ("esnext", "bundler", "es2022,dom,dom.iterable")],
)
def test_a_strict_consumer_compiles(folder: Path, module: str, resolution: str, lib: str) -> None:
    words = ("--module", module, "--moduleResolution", resolution, "--lib", lib)
    run(folder, CLIENT_BIN / "tsc", "--noEmit", *words)


def _bun() -> Path:
    """Npm was told to run no scripts, of which one would link the program."""
    [program] = MODULES.glob("@oven/bun-*/bin/bun")
    return program


RUNTIMES: dict[str, Callable[[], list[object]]] = {
    "node": lambda: ["node", "run.js"],
    "bun": lambda: [_bun(), "run.js"],
    "deno": lambda: [
        BIN / "deno",
        "run",
        "--no-remote",
        "--node-modules-dir=manual",
        "--allow-net=127.0.0.1",
        "--allow-env",
        "run.js",
    ],
    "workerd": lambda: ["node", CONSUMER / "workerd.mjs"],
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


def test_work_of_a_receiver_that_dies_is_done_by_the_next_attempt_and_then_no_more(
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
    # Attempts in between found nobody who listens, or were told that the work goes on.
    words = [f"{own} began", f"{own} began", f"{own} ended"]
    assert notes.read_text().splitlines() == [*words, f"{callback} began", f"{callback} ended"]
    assert customer.outcome(made)["statusCode"] == 204


def reachable(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
