"""The documentation's site, as `make docs` builds it, in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from ops.docs.pages import ROOT, for_readers, for_sphinx, pages
from tests.browser import chromium
from tests.docs.pages import read
from tests.programs import lack_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]
_LINK = re.compile(r'<a [^>]*?href="([^":#?]+\.html)[#"]')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("site") / "docs"
    done = _python("-m", "ops.docs", "--output", str(output))
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing: pytest would show it as a failure's output."""


@pytest.fixture(scope="module")
def base_url(site: Path) -> Iterator[str]:
    handler = partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium.executable() is None:
        pytest.skip(lack_of("chromium"))
    with chromium.chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser, base_url: str) -> Iterator[Page]:
    """An empty page, which in the end has seen no error and has asked no other host."""
    complaints: list[str] = []
    asked: list[str] = []
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    page.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(base_url)] == []


def test_each_page_is_reached_from_the_front_page(site: Path) -> None:
    found, waiting = set[Path](), {site / "index.html"}
    while waiting:
        place = waiting.pop()
        found.add(place)
        links = {(place.parent / link).resolve() for link in _LINK.findall(place.read_text())}
        assert [each for each in links if not each.exists()] == []
        waiting |= links - found
    assert {site / f"{name}.html" for name in pages().values()} <= found


def test_each_heading_has_the_address_that_github_gives_it(site: Path) -> None:
    for file, name in pages().items():
        ids = set(re.findall(r'\bid="([^"]+)"', (site / f"{name}.html").read_text()))
        assert set(read(ROOT / file).anchors) - ids == set(), name


def test_each_page_lies_beside_as_markdown_that_llms_txt_lists(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    full = (site / "llms-full.txt").read_text()
    for name in pages().values():
        place = site / f"{name}.html.md"
        for link in re.findall(r"\]\(([^):#]+\.md)", place.read_text()):
            assert (place.parent / link).exists(), (name, link)
        assert f'href="{place.name}"' in (site / f"{name}.html").read_text()
        assert name == "index" or f"]({name}.html.md): " in listed
        assert place.read_text() in full


def test_search_leads_to_a_page(page: Page, base_url: str) -> None:
    page.goto(base_url)
    page.get_by_role("textbox", name="Search").fill("idempotency key")
    page.keyboard.press("Enter")
    page.locator("ul.search a", has_text="The API").first.click()
    page.wait_for_url("**/reference/api.html*")


def test_a_language_is_chosen_once_for_all_pages(page: Page, base_url: str) -> None:
    page.goto(base_url)
    page.get_by_text("Python", exact=True).click()
    assert page.locator("pre:visible").first.inner_text().startswith("postdate.schedule(")
    page.goto(base_url + "/index.html")
    assert page.locator("pre:visible").first.inner_text().startswith("postdate.schedule(")


@pytest.mark.parametrize("name", ["index", "reference/api"])
def test_nobody_is_kept_out(page: Page, base_url: str, name: str) -> None:
    for width, scheme in ((1440, "light"), (380, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.goto(f"{base_url}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [each for each in found if each["impact"] in {"serious", "critical"}]
        faults = [f"{each['id']}: {node['html']}" for each in serious for node in each["nodes"]]
        assert faults == [], "\n".join(faults)


def test_links_out_of_the_documentation_are_followed_where_sources_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And are plain text where the repository has no address."""
    plain = for_readers("README.md")
    assert "](../tests/" not in plain
    assert "MIT-licensed" in plain
    monkeypatch.setattr("ops.docs.pages.REPOSITORY", "someone/postdate")
    linked = for_readers("README.md")
    assert "(https://github.com/someone/postdate/blob/main/LICENSE)" in linked
    assert "](security.html.md)" in linked


def test_blocks_in_several_languages_are_tabs() -> None:
    text = for_sphinx("docs/index.md")
    assert re.findall(r"\{tab-item\} (.*)", text) == ["curl", "Python", "TypeScript"]
    assert "<!--" not in text


_WITH_DEAD_LINKS = """
from pathlib import Path
from ops.docs import __main__ as site
dead = " [gone](reference/gone.md) [moved](reference/api.md#moved) [away](#away)"
real = site.for_sphinx
site.for_sphinx = lambda file: real(file) + dead * (file == "docs/index.md")
site.build(Path({!r}))
"""


def test_a_dead_link_ends_the_build(tmp_path: Path) -> None:
    done = _python("-c", _WITH_DEAD_LINKS.format(str(tmp_path / "docs")))
    assert done.returncode == 1
    for dead in ("'reference/gone.md'", "'moved'", "'away'"):
        assert dead in done.stderr
