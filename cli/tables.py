"""Tables and lists of fields for people: columns with heads, fitted to the terminal. Cells are
texts of strangers; colour, and which words have one, is decided here.

This is our own code because a prompt must not wait: importing rich takes 30 ms, wcwidth 17 ms,
tabulate 49 ms.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, NamedTuple

from scheduler.texts import visible

_GAP = 2
# A colour has the dashboard's meaning: done, wrong, to come, kept waiting, over.
_COLOURS = {
    "green": "completed delivered active",
    "red": "failed blocked suspended",
    "blue": "scheduled pending",
    "yellow": "held retrying paused calm limited full",
    "bright_black": "cancelled skipped ended inactive expired",
}
_COLOUR_OF = {word: colour for colour, words in _COLOURS.items() for word in words.split()}
# After letters that are written from right to left: else a terminal that orders texts would swap
# the columns.
_LEFT_TO_RIGHT = "\u200e"


class Ready(str):
    """A text that is fit for the terminal: strangers' parts are escaped already."""

    __slots__ = ()


class Column(NamedTuple):
    """`least`: on a narrow terminal its cells are cut to no fewer characters; 0: never. A URL is
    cut in its `middle`, and only after all others. `usual` is its width in rows that come one by
    one."""

    head: str
    right: bool = False
    least: int = 0
    middle: bool = False
    usual: int = 0


class Row(NamedTuple):
    """`below` are lines of their own."""

    cells: Sequence[str]
    below: Sequence[str] = ()


REQUEST = Column("REQUEST", least=16, middle=True, usual=40)
LABELS = Column("LABELS", least=12)
NOTE = Column("NOTE", least=24)


def table(columns: Sequence[Column], rows: Iterable[Row | Sequence[str]]) -> Ready:
    """The rows under their heads; a column in which no row has anything is left out."""
    found = _readable(rows)
    kept = [i for i in range(len(columns)) if any(row.cells[i] for row in found)]
    found = [Row([row.cells[i] for i in kept], row.below) for row in found]
    columns = [columns[i] for i in kept]
    widths = [
        max(map(_width, [column.head, *(row.cells[i] for row in found)]))
        for i, column in enumerate(columns)
    ]
    whole = terminal_width(sys.stdout)
    fitting = len(columns) if whole is None else _fit(columns, widths, whole)
    lines = [_line(columns, [each.head for each in columns], widths[:fitting], head=True)]
    for row in found:
        lines.append(_line(columns, row.cells, widths[:fitting]))
        rest = zip(columns[fitting:], row.cells[fitting:], strict=True)
        left = [f"{_name(column)} {cell}" for column, cell in rest if cell]
        lines += [f"    {text}" for text in (["  ".join(left)] if left else []) + [*row.below]]
    return Ready("\n".join(lines))


def streamed(
    columns: Sequence[Column], rows: Iterable[Row | Sequence[str]], *, head: bool
) -> Ready:
    """Rows of a table that goes on: widths do not depend on them."""
    widths = [max(column.usual, len(column.head)) for column in columns]
    lines = [_line(columns, [each.head for each in columns], widths, head=True)] * head
    lines += [_line(columns, row.cells, widths, cut=False) for row in _readable(rows)]
    return Ready("\n".join(lines))


def fields(shown: Mapping[str, str]) -> Ready:
    """A line for each: its name and its value."""
    width = max(map(len, shown), default=0)
    return Ready(
        "\n".join(
            f"{name:{width}}  {_coloured(text, text) if name in ('status', 'state') else text}"
            for name, text in ((name, visible(text)) for name, text in shown.items())
        )
    )


def at(moment: datetime | None) -> str:
    """A time in a column whose head says UTC; "" for none."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def at_ms(moment_ms: int | None) -> str:
    return at(None if moment_ms is None else datetime.fromtimestamp(moment_ms / 1000, UTC))


def has_colour(stream: IO[str]) -> bool:
    """As no-color.org, bixense.com/clicolors and force-color.org ask."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(
        os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")
    ):
        return True
    is_off = os.environ.get("TERM") == "dumb" or os.environ.get("CLICOLOR") == "0"
    return stream.isatty() and not is_off


def terminal_width(stream: IO[str]) -> int | None:
    """None where it is no terminal: then nothing is cut."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def _readable(rows: Iterable[Row | Sequence[str]]) -> list[Row]:
    return [
        Row([_one_line(cell) for cell in row.cells], [visible(line) for line in row.below])
        if isinstance(row, Row)
        else Row([_one_line(cell) for cell in row])
        for row in rows
    ]


def _one_line(text: str) -> str:
    return visible(text).replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")


def _fit(columns: Sequence[Column], widths: list[int], whole: int) -> int:
    """Narrows the columns that may be cut. Returns how many fit; the others go below the row."""
    fitting = len(columns)
    while True:
        over = sum(widths[:fitting]) + _GAP * (fitting - 1) - whole
        places = sorted(range(fitting), key=lambda i: (columns[i].middle, -i))
        spare = {i: max(widths[i] - columns[i].least, 0) for i in places if columns[i].least}
        if over <= sum(spare.values()) or fitting == 1:
            break
        fitting -= 1
    for i, most in spare.items():
        given = min(most, max(over, 0))
        widths[i] -= given
        over -= given
    return fitting


def _line(
    columns: Sequence[Column],
    cells: Sequence[str],
    widths: Sequence[int],
    *,
    head: bool = False,
    cut: bool = True,
) -> str:
    parts = []
    for column, cell, width in zip(columns, cells, widths, strict=False):
        text = _cut(cell, width, middle=column.middle) if cut else cell
        blank = " " * max(width - _width(text), 0)
        text = _styled(text, bold=True) if head else _coloured(text, cell)
        parts.append(blank + text if column.right else text + blank)
    return (" " * _GAP).join(parts).rstrip()


def _name(column: Column) -> str:
    name = column.head.removesuffix(" (UTC)")
    return name.lower() if name.isupper() else name


def _cut(text: str, width: int, *, middle: bool) -> str:
    if _width(text) <= width:
        return text
    tail = (width - 1) * 2 // 3 if middle else 0  # the end of a URL tells most
    return f"{_first(text, width - 1 - tail)}…{_first(text[::-1], tail)[::-1]}"


def _first(text: str, width: int) -> str:
    taken = 0
    for i, letter in enumerate(text):
        taken += _width(letter)
        if taken > width:
            return text[:i]
    return text


def _width(text: str) -> int:
    """In columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(letter) or unicodedata.category(letter) in ("Me", "Mn", "Cf")
        else 2
        if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )


def _coloured(text: str, word: str) -> str:
    colour = _COLOUR_OF.get(word)
    if colour is not None:
        return _styled(text, fg=colour)
    if not text.isascii() and any(unicodedata.bidirectional(c) in ("R", "AL") for c in text):
        return text + _LEFT_TO_RIGHT * sys.stdout.isatty()
    return text


def _styled(text: str, **style: object) -> str:
    import click

    return click.style(text, **style) if has_colour(sys.stdout) else text  # type: ignore[arg-type]
