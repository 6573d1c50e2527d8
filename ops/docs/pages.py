"""The pages of the site: which file is which page, in which order, and how its Markdown is made
fit for a place outside of the repository."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "start": "Start",
    "how-to": "How to",
    "reference": "Reference",
    "troubleshooting": "Troubleshooting",
    "come-over": "Come over",
    "concepts": "Concepts",
    "clients": "Clients",
    "internals": "Internals",
    "project": "Project",
}
# The first pages of a room; others follow by their names.
_FIRST = {
    "start": "five-minutes docker own-redis customers",
    "how-to": """retry lanes recurring callbacks verify references replay production tls
        sentinel-cluster backup upgrade erase docker-host monitor stop as-code mcp""",
    "reference": """api schedules callbacks log statistics signing lanes recurring account health
        errors headers events settings commands metrics alerts dashboard python typescript
        stability""",
    "troubleshooting": "never-came came-twice late refused store-full",
    "concepts": "lifecycle delivery lateness isolation not-included",
    "project": "readme examples changelog security contributing benchmarks",
}
_TABS = {
    "python": "Python",
    "ts": "TypeScript",
    "js": "JavaScript",
    "go": "Go",
    "php": "PHP",
    "ruby": "Ruby",
}
_TAB = r"```(?:sh|console|python|ts|js|go|php|ruby)\n(?:(?!```).*\n)+```\n"
_TABBED = re.compile(rf"^{_TAB}(?:\n{_TAB})+", re.M)
_FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
_COMMENT = re.compile(r"^ *<!--.*?-->\n*", re.M | re.S)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")

# Where sources are shown: "owner/name" on GitHub, as its workflows set it; without one, links to
# files that are no pages lead nowhere, and are plain text.
REPOSITORY = os.environ.get("GITHUB_REPOSITORY", "")
SERVER = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
REF = os.environ.get("DOCS_REF", "main")


@cache
def pages() -> dict[str, str]:
    """The name of each page (`start/five-minutes`) by the file it is made of, in order."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    names = {file: name for file in listed if (name := _name(file)) and (ROOT / file).exists()}
    return dict(sorted(names.items(), key=lambda item: _place(item[1])))


def _name(file: str) -> str | None:
    if file.startswith("docs/"):
        return file.removeprefix("docs/").removesuffix(".md")
    if "/" not in file or file in {"benchmarks/README.md", "examples/README.md"}:
        return "project/" + file.lower().removesuffix(".md").removesuffix("/readme")
    if re.fullmatch(r"clients/\w+/README\.md", file):
        return file.removesuffix("/README.md")
    return None


def _place(name: str) -> tuple[int, int, str]:
    room, _, page = name.rpartition("/")
    first = _FIRST.get(room, "").split()
    place = first.index(page) if page in first else len(first)
    return ["", *ROOMS].index(room), place, page


def source_url(path: str, view: str = "blob") -> str | None:
    """Where a file is shown, if the repository has an address."""
    return f"{SERVER}/{REPOSITORY}/{view}/{REF}/{path}" if REPOSITORY else None


def for_readers(file: str) -> str:
    """The page's Markdown, with links that work beside the site's pages."""
    return _COMMENT.sub("", _linked(file, lambda name: f"{name}.html.md"))


def for_sphinx(file: str) -> str:
    """The same with tabs, and links that Sphinx judges."""
    text = _COMMENT.sub("", _linked(file, lambda name: f"{name}.md"))
    return _TABBED.sub(lambda found: _tabs(found[0]), text)


def _linked(file: str, address: Callable[[str], str]) -> str:
    text = (ROOT / file).read_text()
    parts, at = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_with_links(text[at : fence.start()], file, address), fence[0]]
        at = fence.end()
    return "".join([*parts, _with_links(text[at:], file, address)])


def _with_links(text: str, file: str, address: Callable[[str], str]) -> str:
    def replaced(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        label = _LINK.sub(replaced, label)
        if re.match(r"[a-z]+:|#", target):
            return f"{image}[{label}]({target})"
        path, _, anchor = target.partition("#")
        real = os.path.relpath((ROOT / file).parent / path, ROOT)
        name = pages().get(real)
        if name:
            new = os.path.relpath(address(name), Path(pages()[file]).parent)
            return f"[{label}]({new}{'#' * bool(anchor)}{anchor})"
        if real.startswith("docs/") and (ROOT / real).is_file():
            new = os.path.relpath(real.removeprefix("docs/"), Path(pages()[file]).parent)
            return f"{image}[{label}]({new})"
        if not (ROOT / real).exists():
            return found[0]  # Sphinx tells where it stands
        url = source_url(real, "tree" if (ROOT / real).is_dir() else "blob")
        return f"{image}[{label}]({url})" if url else label

    return _LINK.sub(replaced, text)


def _tabs(text: str) -> str:
    """Blocks of code that follow each other, in several languages, as tabs."""
    blocks = re.findall(_TAB, text)
    labels = [_label(block) for block in blocks]
    if len(set(labels)) < len(labels):
        return text
    items = (
        f"````{{tab-item}} {label}\n:sync: {label}\n\n{block}````\n"
        for label, block in zip(labels, blocks, strict=True)
    )
    return "`````{tab-set}\n:sync-group: language\n\n" + "".join(items) + "`````\n"


def _label(block: str) -> str:
    language = block[3 : block.index("\n")]
    shell = "Command line" if re.search(r"^(?:\$ )?postdate ", block, re.M) else "curl"
    return _TABS.get(language, shell)


def toctrees() -> Iterator[str]:
    """The navigation, room by room."""
    for room, title in ROOMS.items():
        names = [name for name in pages().values() if name.startswith(f"{room}/")]
        if names:
            yield "\n".join(
                ["```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```", ""]
            )
