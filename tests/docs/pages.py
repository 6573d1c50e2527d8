"""What tests of the documents read in a page: headings, links, fences, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("clients/*/README.md"),
        *ROOT.glob("examples/README.md"),
        ROOT / "benchmarks/README.md",
    ]
)
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_COMMENT = re.compile(r"<!-- (setup|skip:|fails:)\s*(.*?)\s*-->", re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass
class Fence:
    """A block of code. `line` is that of its first line in the page, from 1."""

    language: str
    text: str
    line: int
    setup: str = ""
    skip: str = ""
    fails: str = ""


@dataclass
class Page:
    title: str = ""
    first_paragraph: str = ""
    anchors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    sentences: list[tuple[int, str]] = field(default_factory=list)  # line and text of paragraphs
    html: list[str] = field(default_factory=list)  # other than comments
    words: int = 0


@cache
def read(path: Path) -> Page:
    page, comments = Page(), dict[str, str]()
    tokens = _MARKDOWN.parse(path.read_text())
    for token, opened in zip(tokens, [None, *tokens], strict=False):
        if token.type == "heading_open":
            comments.clear()
        elif token.type == "html_block":
            comments |= dict(_COMMENT.findall(token.content))
            rest = re.sub(r"<!--.*?-->", "", token.content, flags=re.DOTALL).strip()
            page.html += [rest] if rest else []
        elif token.type in {"fence", "code_block"}:
            page.fences.append(_fence(token, comments))
        elif token.type == "inline":
            assert opened is not None
            _note(page, token, opened)
    return page


def _fence(token: Token, comments: dict[str, str]) -> Fence:
    assert token.map is not None
    return Fence(
        token.info,
        token.content,
        token.map[0] + 2,
        comments.get("setup", ""),
        comments.pop("skip:", ""),
        comments.pop("fails:", ""),
    )


def _note(page: Page, token: Token, opened: Token) -> None:
    text = "".join(_plain(token))
    page.words += len(text.split())
    page.links += [str(each.attrs["href"]) for each in token.children or () if "href" in each.attrs]
    page.links += [str(each.attrs["src"]) for each in token.children or () if "src" in each.attrs]
    page.html += [each.content for each in token.children or () if each.type == "html_inline"]
    if opened.type == "heading_open":
        page.anchors.append(_anchor(text, page.anchors))
        page.title = page.title or (text if opened.tag == "h1" else "")
    elif opened.type in {"td_open", "th_open"}:
        page.cells.append(text)
    elif opened.type == "paragraph_open":
        page.first_paragraph = page.first_paragraph or text
        page.sentences.append(((token.map or [0])[0] + 1, text))


def _plain(token: Token) -> Iterator[str]:
    for each in token.children or ():
        if each.type in {"text", "code_inline"}:
            yield each.content
        elif each.type in {"softbreak", "hardbreak"}:
            yield "\n"
        elif each.type == "image":
            yield each.content


def _anchor(heading: str, before: list[str]) -> str:
    """As GitHub makes it."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    again = sum(1 for each in before if re.fullmatch(rf"{re.escape(plain)}(-\d+)?", each))
    return f"{plain}-{again}" if again else plain
