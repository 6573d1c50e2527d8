"""The snippets of every page run as they stand there."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import DOCUMENTS, ROOT, Fence, Page, name_of, read
from tests.docs.snippets import NOT_RUN, RUN, Place, Runner, lacking, operates, speaks_qstash
from tests.programs import lack_of
from tests.support.commands import own_account
from tests.support.customer import Customer
from tests.support.processes import PostdateProcess
from tests.support.receiver import Receiver

_SHOWN = {"text", "http", "mermaid", "nginx", "ini", "dockerfile"}
_PARSERS = {
    "json": json.loads,
    "yaml": lambda text: [*yaml.safe_load_all(text)],
    "toml": tomllib.loads,
}
PAGES = [page for page in DOCUMENTS if read(page).fences]


@contextmanager
def place_for(page: Path, shared: PostdateProcess, receiver: Receiver) -> Iterator[Place]:
    """A page that only uses the API has an account of its own; one that operates Postdate has a
    whole one, whose first account it is, and so has the one that turns a door on."""
    with ExitStack() as stack:
        if operates(page) or speaks_qstash(page):
            door = {"qstash": "on"} if speaks_qstash(page) else {}
            up = stack.enter_context(PostdateProcess(**door))
            key = up.api_key
        else:
            up, key = shared, own_account(shared, 10_000)["api_key"]
        with Customer(up.base_url, key) as customer:
            [secret] = customer.get("/signing").json()["secrets"]
        yield Place(up, receiver.url, key, secret["secret"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if name_of(page) not in NOT_RUN], ids=name_of
)
def test_snippets_run(page: Path, postdate_up: PostdateProcess, receiver: Receiver) -> None:
    with place_for(page, postdate_up, receiver) as place, Runner(page, place) as runner:
        if failure := runner.failure():
            pytest.fail(failure, pytrace=False)
    for lack in lacking(page):
        is_built = lack == "the TypeScript client"
        pytest.skip(f"needs {lack}: make typescript" if is_built else lack_of(lack))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_snippet_has_a_known_language_and_data_can_be_parsed(page: Path) -> None:
    for fence in read(page).fences:
        where = f"{name_of(page)}:{fence.line}"
        assert fence.language in RUN | _SHOWN | _PARSERS.keys(), f"{where}: {fence.language!r}"
        if fence.language in _PARSERS and not fence.skip:
            try:
                _PARSERS[fence.language](fence.text)
            except ValueError as error:
                pytest.fail(f"{where}: {error}", pytrace=False)


FAILING = {
    "a command in the middle": Fence("sh", "true\nfalse\ntrue", 10),
    "an error of the API": Fence("console", "$ curl http://127.0.0.1:8000/stats", 10),
    "an exception": Fence("python", "postdate.get('sch_1')", 10),
    "a setup": Fence("sh", "true", 10, setup="ID=$(postdate get sch_1)"),
    "a success that was to fail": Fence("sh", "echo 409", 10, fails="409"),
    "another failure than the one told": Fence("sh", "false", 10, fails="409"),
    "a program that changes the machine": Fence("sh", "true && npm install postdate", 10),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FAILING)
def test_a_snippet_that_does_not_do_what_it_shows_is_found(
    case: str, postdate_up: PostdateProcess, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs/page.md"
    shown = Page(fences=[FAILING[case]])
    monkeypatch.setattr("tests.docs.snippets.read", lambda _: shown)
    monkeypatch.setattr("tests.docs.test_snippets.read", lambda _: shown)
    with place_for(page, postdate_up, receiver) as place, Runner(page, place) as runner:
        assert "docs/page.md:10\n" in (runner.failure() or "")


@pytest.mark.slow
def test_a_snippet_that_must_fail_may_and_the_next_one_runs(
    postdate_up: PostdateProcess, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    fences = [
        Fence("sh", "NAME=x; curl http://127.0.0.1:8000/stats", 10, fails="401"),
        Fence("console", "$ test $NAME = x\n", 20),
        Fence("python", "assert name_of == 'y'", 30, setup="NAME_OF=y"),
    ]
    monkeypatch.setattr("tests.docs.snippets.read", lambda _: Page(fences=fences))
    page = ROOT / "docs/page.md"
    with place_for(page, postdate_up, receiver) as place, Runner(page, place) as runner:
        assert runner.failure() is None
