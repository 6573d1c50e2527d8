"""Runs the SDKs' own tests against Postdate in QStash's place: `make peers-tests`.

    python -m tests.qstash.sdks.peers [python] [typescript]

Fetches the two repositories with git, or takes them from the folder that QSTASH_SDKS names (with
`qstash-py` and `qstash-js` in it). Starts a store, an API with the door, a worker, and an HTTPS
server in the place of the hosts that the tests call, whose port 443 a process has to be allowed to
take. Prints what passed, what failed, and what was left out and why. Needs npm for TypeScript.
A test that fails runs once more, alone, before it counts: they were written for a service whose
requests are not on their way within the millisecond.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import click
import httpx

from tests.qstash.sdks.https_target import HttpsTarget
from tests.support.deployment import Deployment

_SOURCE = "https://github.com/upstash/{}.git"
_PATIENCE_S = 1800
_FETCHES = """\
It needs git, GitHub, npm, and the registries of pip and npm. Without GitHub, bring the repositories
here by other means: QSTASH_SDKS=.. takes ../qstash-py and ../qstash-js."""
_PORT_443 = "Run it as root, or lower `sysctl net.ipv4.ip_unprivileged_port_start` to 443."

# What the name of a test or of its file says, and why the test may fail.
NOT_OFFERED = {
    r"url_group|urlGroup|url ?[gG]roup|when there is a single item": "URL groups are not offered",
    r"llm|openai": "LLM endpoints are not offered",
    r"global_parallelism|global parallelism": "there is no parallelism of a whole account",
    r"test_timeout|with timeout|cancel many and all": "it asks for 90 s; an attempt has at most 30",
    r"terminate after sleeping": "it asks no server, and wants the words of another version of Bun",
}
_TYPESCRIPT = (
    "client", "messages", "queue", "schedules", "dlq", "logs", "flow-control", "http",
)  # fmt: skip
# What the TypeScript tests import, and the program that they are written for.
_PACKAGES = {
    "bun": "1.4.5", "crypto-js": "4.2.0", "jose": "5.10.0", "nanoid": "5.1.6",
    "neverthrow": "7.2.0",
}  # fmt: skip
# Some of them make URL groups before they test something else.
_PRELOAD = """
const real = globalThis.fetch;
globalThis.fetch = ((input, init) =>
  String(input).includes("/v2/topics") ? Promise.resolve(Response.json([])) : real(input, init)
) as typeof fetch;
"""
# What the Python tests import. Newer PyJWTs refuse the `jti` that one of them makes, a number.
_DISTRIBUTIONS = ("pyjwt==2.9.0", "python-dotenv==1.2.1")


class Case(NamedTuple):
    """A test, and what became of it; `failure` is empty if it passed. `place`: its class, or the
    groups that it stands in."""

    file: str
    place: str
    name: str
    failure: str = ""

    @property
    def left_out(self) -> str:
        """Why it does not count, or an empty text."""
        whole = f"{self.file} {self.name}"
        return next((why for what, why in NOT_OFFERED.items() if re.search(what, whole)), "")


Run = Callable[[Path, Path, dict[str, str], Case | None], list[Case]]


def python(source: Path, folder: Path, settings: dict[str, str], only: Case | None) -> list[Case]:
    """pytest, all of it or one test."""
    imported, report = folder / "imported", folder / "report.xml"
    if not imported.exists():
        install = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", imported)
        _fetch(sys.executable, *install, *_DISTRIBUTIONS)
    chosen = ["tests"] if only is None else [f"{only.file}::{only.name}"]
    options = ("-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=strict", "--rootdir", ".")
    plugins = ("-p", "no:schemathesis", "-p", "no:random_order", "-p", "no:anyio")
    command = (sys.executable, "-m", "pytest", *options, *plugins, *chosen)
    path = {"PYTHONPATH": f"{source}:{imported}", "PYTHONDONTWRITEBYTECODE": "1"}
    _call(source, {**settings, **path}, *command, f"--junitxml={report}")
    return [case._replace(file=case.place.replace(".", "/") + ".py") for case in _cases(report)]


def typescript(
    source: Path, folder: Path, settings: dict[str, str], only: Case | None
) -> list[Case]:
    """Bun's own runner: each file by itself, as some count all messages of the account. One file
    imports another, and runs its tests once more."""
    bun, cases = _bun(source, folder), dict[tuple[str, str], Case]()
    files = [f"src/client/{each}.test.ts" for each in _TYPESCRIPT] + ["src/receiver.test.ts"]
    for file in files if only is None else [only.file]:
        report = folder / "report.xml"
        report.unlink(missing_ok=True)
        chosen = [] if only is None else ["-t", re.escape(only.name)]
        reporter = ("--reporter=junit", f"--reporter-outfile={report}")
        preload = ("--preload", "./preload.ts")
        _call(folder / "js", settings, bun, "test", *preload, *reporter, f"./{file}", *chosen)
        for case in _cases(report):
            cases.setdefault((case.place, case.name), case._replace(file=file))
    return [each for each in cases.values() if only is None or each[:3] == only[:3]]


def _bun(source: Path, folder: Path) -> str:
    """The program, beside a copy of the tests and what they import."""
    place = folder / "js"
    if not place.exists():
        shutil.copytree(source / "src", place / "src")
        shutil.copy(source / "version.ts", place)
        shutil.copytree(source / "src", place / "dist")  # for a type that a test imports
        (place / "preload.ts").write_text(_PRELOAD)
        (place / "package.json").write_text(json.dumps({"dependencies": _PACKAGES}))
        quiet = "--no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error"
        _fetch("npm", "install", *quiet.split(), "--prefix", place)
    return str(next(iter(place.glob("node_modules/@oven/bun-linux-*/bin/bun"))))


def _call(place: Path, settings: dict[str, str], *command: str) -> None:
    """Its status says only that some failed; the report says which."""
    done = subprocess.run(
        command, cwd=place, env={**os.environ, **settings}, capture_output=True, text=True,
        timeout=_PATIENCE_S, check=False,
    )  # fmt: skip
    if "-v" in sys.argv:
        click.echo(done.stdout + done.stderr)


def _cases(report: Path) -> Iterator[Case]:
    for case in ElementTree.parse(report).iter("testcase"):
        bad = [each for kind in ("failure", "error") for each in case.findall(kind)]
        failure = " ".join(f"{each.get('message') or each.get('type')}" for each in bad)
        if case.find("skipped") is None:
            yield Case("", case.get("classname", ""), case.get("name", ""), failure)


LANGUAGES: dict[str, tuple[str, Run]] = {
    "python": ("qstash-py", python),
    "typescript": ("qstash-js", typescript),
}


def _fetch(*command: str | Path) -> None:
    """Ends this program if the command fails, or is not there."""
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{error}\n{_FETCHES}")


def _source(name: str, folder: Path) -> Path:
    """Where the repository is; ends this program if it is nowhere."""
    given, url = os.environ.get("QSTASH_SDKS"), _SOURCE.format(name)
    source = Path(given or folder).resolve() / name
    if not given:
        _fetch("git", "clone", "--quiet", "--depth", "1", url, source)
    if not source.is_dir():
        sys.exit(f"QSTASH_SDKS: there is no {source}. Clone {url}, or leave the setting out.")
    return source


def main() -> int:
    asked = [each for each in sys.argv[1:] if each in LANGUAGES] or list(LANGUAGES)
    failed = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pd-qstash-")))
        sources = {each: _source(LANGUAGES[each][0], folder) for each in asked}
        try:
            stack.enter_context(HttpsTarget(folder))
        except OSError as error:
            sys.exit(f"{error}\n{_PORT_443}")
        running = stack.enter_context(Deployment(qstash="on", forked=False))
        running.api()
        running.worker(module="tests.qstash.sdks.worker_of_hosts")
        for language in asked:
            source, run = sources[language], LANGUAGES[language][1]
            cases = run(source, folder, _settings(running), None)
            again = [each for each in cases if each.failure and not each.left_out]
            for each in again:
                cases[cases.index(each)] = run(source, folder, _settings(running), each)[0]
            failed += _tell(language, cases, {each[:3] for each in again})
        problems = running.problems()
        click.echo("\n".join(problems) or "postdate check: nothing is wrong with the store")
    return int(failed > 0 or bool(problems))


def _settings(running: Deployment) -> dict[str, str]:
    """Those of the SDKs, of a new account."""
    customer = running.customer()
    url, headers = f"{customer.base_url}/qstash", {"Authorization": f"Bearer {customer.key}"}
    keys = httpx.get(f"{url}/v2/keys", headers=headers).raise_for_status().json()
    return {
        "QSTASH_URL": url,
        "QSTASH_TOKEN": customer.key,
        "QSTASH_CURRENT_SIGNING_KEY": keys["current"],
        "QSTASH_NEXT_SIGNING_KEY": keys["next"],
    }


def _tell(language: str, cases: list[Case], again: set[tuple[str, ...]]) -> int:
    """How many failed that should have passed."""
    passed = [each for each in cases if not each.failure]
    left_out = [each for each in cases if each.failure and each.left_out]
    failed = [each for each in cases if each.failure and not each.left_out]
    for each in passed:
        late = ", at the second try" if each[:3] in again else ""
        click.echo(f"passed    {each.file} {each.name}{late}")
    for each in left_out:
        click.echo(f"left out  {each.file} {each.name}: {each.left_out}")
    for each in failed:
        click.echo(f"FAILED    {each.file} {each.name}\n    {each.failure[:1000]}")
    click.echo(
        f"{language}: {len(passed)} passed, {len(failed)} failed, {len(left_out)} left out\n"
    )
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
