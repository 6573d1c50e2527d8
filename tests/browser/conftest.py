"""A Postdate, a target and a real browser; what the browser sees is watched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright import sync_api as playwright

from tests.browser import chromium
from tests.programs import lack_of
from tests.support.servers import Customer, PostdateProcess, postdate_json

PAGES = (
    *("", "/requests", "/requests/new", "/recurring", "/recurring/new", "/lanes", "/jump?q=a"),
    *("/lanes/invoices", "/keys", "/signing/rotate", "/credits", "/account", "/system"),
    "/system/audit",
)
_LOOK = "() => document.dispatchEvent(new Event('visibilitychange'))"
_LOOK_UNTIL = """([selector, words]) => {
  document.dispatchEvent(new Event('visibilitychange'));
  return document.querySelector(selector)?.textContent.includes(words);
}"""
_LINK = re.compile(r"http://\S+/dashboard/link/\S+")


def sign_in_link(up: PostdateProcess) -> str:
    """The link that this start printed."""
    match = _LINK.search(up.stdout)
    assert match, up.stdout
    return match[0]


def fresh_link(up: PostdateProcess) -> str:
    """A link that signs in, made while `up` runs."""
    port = urlsplit(up.base_url).port
    made = postdate_json("account", "link", "default", data_dir=up.data_dir, port=port)
    return str(made["link"])


def follow(page: playwright.Page, link: str) -> None:
    """A one-time link that signs in, to the overview that it leads to."""
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/dashboard")


def sign_in(context: playwright.BrowserContext, up: PostdateProcess) -> None:
    """What pressing the button of a link does, before there is a page."""
    answer = context.request.post(fresh_link(up), headers={"origin": up.base_url}, max_redirects=0)
    assert answer.status == 303, answer.text()


class Watched:
    """A page, and all that must not happen on it."""

    def __init__(self, page: playwright.Page, base_url: str) -> None:
        self.page = page
        self.base_url = base_url
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.bodies: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def go(self, path: str = "") -> None:
        self.page.goto(f"{self.base_url}/dashboard{path}")

    def look(self) -> None:
        """The viewer is back at the page, which asks for news at once."""
        self.page.evaluate(_LOOK)

    def look_until(self, selector: str, words: str) -> None:
        """Looks again and again, until it shows these words."""
        self.page.wait_for_function(_LOOK_UNTIL, arg=[selector, words], polling=100)

    def assert_quiet(self) -> None:
        """No error in the console, no request to another host."""
        assert self.complaints == []
        assert self.hosts == {urlsplit(self.base_url).netloc}

    def _on_console(self, message: playwright.ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)


@pytest.fixture(scope="package")
def browser() -> Iterator[playwright.Browser]:
    """For this room only: while it runs, no other event loop can run in this thread."""
    if chromium.executable() is None:
        pytest.skip(lack_of("chromium"))
    with chromium.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def postdate_up() -> Iterator[PostdateProcess]:
    """A first start of its own: its pages show all that there is."""
    with PostdateProcess() as up:
        yield up


@pytest.fixture
def customer(postdate_up: PostdateProcess) -> Iterator[Customer]:
    """The first account, by the key that this start printed."""
    with Customer(postdate_up.base_url, postdate_up.api_key) as customer:
        yield customer


@pytest.fixture
def context(browser: playwright.Browser) -> Iterator[playwright.BrowserContext]:
    """A browser without a past, on a wide and light screen."""
    fresh = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
    yield fresh
    fresh.close()


@pytest.fixture
def watched(context: playwright.BrowserContext, postdate_up: PostdateProcess) -> Watched:
    """An empty page of a signed-out visitor."""
    return Watched(context.new_page(), postdate_up.base_url)


@pytest.fixture
def signed_in(
    context: playwright.BrowserContext, postdate_up: PostdateProcess, watched: Watched
) -> Watched:
    """An empty page, whose next one will be of whom the first account is."""
    sign_in(context, postdate_up)
    return watched
