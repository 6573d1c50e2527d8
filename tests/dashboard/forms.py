"""Forms of a page, as a browser fills them in and sends them."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []
        self._select = self._textarea = ""
        self._first = self._named = False
        self._fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name = given.get("name", "")
        if tag == "form":
            self._fields = {}
            self.found.append(self._fields)
        elif tag == "input" and name:
            self._fields[name] = given.get("value", "")
        elif tag == "textarea":
            self._textarea, self._first, self._fields[name] = name, True, ""
        elif tag == "select":
            self._select, self._first = name, True
        elif tag == "option" and self._select and ("selected" in given or self._first):
            self._first = False
            self._fields[self._select] = given.get("value", "")
            self._named = "value" not in given

    def handle_data(self, data: str) -> None:
        if self._textarea:
            # A newline right after the tag is none of the text.
            self._fields[self._textarea] += data.removeprefix("\n") if self._first else data
            self._first = False
        elif self._named:  # an option without a value has its words
            self._fields[self._select], self._named = data, False

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._textarea = ""
        elif tag == "select":
            self._select = ""


def form_with(text: str, field: str) -> dict[str, str]:
    """The fields of the one form that has this field, without the token and the key of a form."""
    forms = _Forms()
    forms.feed(text)
    forms.close()
    [fields] = [each for each in forms.found if field in each]
    return {name: value for name, value in fields.items() if name not in ("csrf", "once")}


def faults_of(text: str) -> dict[str, str]:
    """The faults that stand beside the inputs of a page, which are marked and described by them,
    and in no closed fold. The page says how many, and the first one gets the focus."""
    found = re.findall(r'<p class="bad" id="fault-(\w+)">([^<]*)</p>', text)
    marked = re.findall(r'name="(\w+)" aria-describedby="fault-\1" aria-invalid="true"', text)
    focused = re.findall(r'name="(\w+)"[^>]* autofocus', text)
    closed = re.findall(r'<details class="fold-of-fields">.*?</details>', text, re.DOTALL)
    assert not any('id="fault-' in each for each in closed)
    assert (marked, focused) == ([name for name, _ in found], marked[:1])
    assert not found or f"{len(found)} field" in text
    return {name: html.unescape(why) for name, why in found}
