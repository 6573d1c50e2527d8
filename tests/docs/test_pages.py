"""What holds for every page of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs import english
from tests.docs.pages import DOCUMENTS, ROOT, name_of, read

PAGES = [page for page in DOCUMENTS if name_of(page).startswith("docs/")]
_LONG = ("docs/reference/", "docs/internals/")
_MOST_WORDS, _MOST_WORDS_OF_A_CELL, _MOST_COLUMNS = 1500, 40, 120
# What only some renderers understand: a page must read the same on GitHub and on the site.
_FOREIGN_SYNTAX = re.compile(r"^ *(?::::|===|!!!|\?\?\?|\{%|\{: )", re.MULTILINE)
_TARGET = re.compile(r"\]\([^)]*\)")
of_documents = pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
of_pages = pytest.mark.parametrize("page", PAGES, ids=name_of)


@of_documents
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in read(page).links:
        if re.match(r"(https?|mailto):", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in read(target).anchors):
            dead.append(link)
    _none(dead)


def test_the_front_page_links_to_every_page() -> None:
    """GitHub shows no navigation."""
    front = ROOT / "docs/index.md"
    linked = {front, *((front.parent / link.split("#")[0]).resolve() for link in read(front).links)}
    _none(name_of(page) for page in PAGES if page not in linked)


@of_pages
def test_a_page_has_a_title_a_first_sentence_and_an_example(page: Path) -> None:
    found = read(page)
    first, *rest = page.read_text().lstrip().splitlines()
    assert first == f"# {found.title}" or first.startswith("# ")
    then = next(line for line in rest if line and not line.startswith("<!--"))
    assert re.match(r"[\w`*\[]", then), "after the title a sentence says what the page is for"
    assert found.fences, "a page without an example"


@of_pages
def test_each_heading_has_an_address_of_its_own(page: Path) -> None:
    _none(each for each in read(page).anchors if re.search(r"-\d$", each) or len(each) > 60)


@of_pages
def test_a_page_can_be_read_in_one_sitting(page: Path) -> None:
    """Words of code blocks do not count."""
    if not name_of(page).startswith(_LONG):
        assert read(page).words <= _MOST_WORDS
    _none(cell for cell in read(page).cells if len(cell.split()) > _MOST_WORDS_OF_A_CELL)


@of_documents
def test_a_line_fits_a_window(page: Path) -> None:
    """Tables, code, the targets of links, and what a benchmark writes may be longer."""
    if name_of(page) == "benchmarks/README.md":
        return
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = [
        _TARGET.sub("]", line)
        for line in text.splitlines()
        if not line.lstrip(" -").startswith("|")
    ]
    _none(line for line in lines if len(line) > _MOST_COLUMNS and " " in line.strip())


@of_pages
def test_a_page_is_plain_markdown(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert _FOREIGN_SYNTAX.findall(text) == []
    assert read(page).html == []


@of_documents
def test_a_page_is_written_in_plain_english(page: Path) -> None:
    found = read(page)
    texts = [*found.sentences, *((0, cell) for cell in found.cells)]
    _none(f"line {line}: {fault}" for line, text in texts for fault in english.faults(text))


def _none(faults: Iterable[str]) -> None:
    """Fails with all of them."""
    if found := list(faults):
        pytest.fail("\n".join(found), pytrace=False)


def test_clumsy_english_is_found() -> None:
    """This test's list can fail, and knows what is fine."""
    for text in (
        "What is due is claimed by a worker.",
        "It works. Whoever waits gets nothing.",
        "Those that wait for a secret keep no others waiting.",
        "A customer is not to learn which names there are.",
        "Looks anew when a lane can start something next.",
        "Where the lease ends, the worker looks again, and is none of the others.",
    ):
        assert [*english.faults(text)], text
    for text in (
        "What if we die right after it? Nothing is lost.",
        "`What is due` is a name. What to do next:",
        "The lane is paused until you resume it.",
        "What a failover can lose, and how to replace a primary on purpose.",
        "This table shows what a target receives.",
    ):
        assert [*english.faults(text)] == []
