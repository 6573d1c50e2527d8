"""Builds the documentation's site.

    make docs                  # into build/docs
    make docs ARGS=--serve     # and shows it at http://127.0.0.1:8080

A link that leads nowhere, to a page or to a heading, ends it with an error. Beside each page lies
its Markdown, at the page's address and `.md`, for programs that read; `llms.txt` lists them, and
`llms-full.txt` has all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sphinx.cmd.build import build_main

from ops.docs.pages import ROOMS, ROOT, for_readers, for_sphinx, pages, toctrees

_HERE = Path(__file__).parent
_NOT_FOUND = """---
orphan: true
---
# There is no such page

It was moved, or never was here. Search for it, or begin at the [front page](index.md).
"""


def build(output: Path) -> None:
    """Raises SystemExit when a page has a fault."""
    source = output.with_name(f"{output.name}-source")
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.md"))
    for file, name in pages().items():
        place = source / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(for_sphinx(file))
    with (source / "index.md").open("a") as index:
        index.write("\n" + "\n".join(toctrees()))
    (source / "404.md").write_text(_NOT_FOUND)
    options = ["-q", "-W", "--keep-going", "-j", "2", "-c", _HERE, "-d", source / ".doctrees"]
    if build_main([str(each) for each in (*options, "-b", "html", source, output)]):
        raise SystemExit("The site has faults: see above.")
    _write_markdown(output)


def _write_markdown(output: Path) -> None:
    texts = {name: for_readers(file) for file, name in pages().items()}
    for name, text in texts.items():
        place = output / f"{name}.html.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    lines = ["# Postdate", "", f"> {_summary(texts['index'])}", ""]
    for room, title in ROOMS.items():
        found = {name: text for name, text in texts.items() if name.startswith(f"{room}/")}
        lines += [f"## {title}", ""]
        lines += [
            f"- [{_title(text)}]({name}.html.md): {_summary(text)}" for name, text in found.items()
        ]
        lines.append("")
    (output / "llms.txt").write_text("\n".join(lines))
    full = (f"<!-- {name}.html -->\n\n{text}" for name, text in texts.items())
    (output / "llms-full.txt").write_text("\n\n".join(full))


def _title(text: str) -> str:
    return text.splitlines()[0].removeprefix("# ")


def _summary(text: str) -> str:
    """The first sentence of the page, without its links."""
    paragraph = " ".join(text.split("\n\n")[1].split())
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph).replace("**", "")
    return re.split(r"(?<=\.) ", plain)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build/docs")
    parser.add_argument("--serve", action="store_true", help="show it until Ctrl-C")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    build(options.output.resolve())
    print(f"{len(pages())} pages are in {options.output}.")
    if options.serve:
        handler = partial(SimpleHTTPRequestHandler, directory=str(options.output))
        with ThreadingHTTPServer(("127.0.0.1", options.port), handler) as server:
            print(f"They are shown at http://127.0.0.1:{server.server_port}, until Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()


if __name__ == "__main__":
    main()
