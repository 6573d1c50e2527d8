"""Pages for those who only look, as a member or as an operator: every form that would write is
taken away, at this one place. An operator looks at an account below an address of its own, which
names it, so tabs with several accounts know nothing of each other, and all links there are kept
below it. Pure."""

from __future__ import annotations

import re

LOOK = "/dashboard/as/"
_PREFIX = re.compile(rf"{LOOK}[\w-]+(?=[/?]|$)")
# These are the operator's own, or nobody's.
_OUTSIDE = "as|static|system|sign-in|sign-out|link|account|members|history|keys|signing|zone|echo"
_INSIDE = rf"/dashboard(?=[/?#\"]|$)(?!/(?:{_OUTSIDE})\b)"
# Templates escape quotes and angle brackets of all values, so what looks like a tag is one of ours.
_ADDRESSES = re.compile(
    rf'(?<=\s)((?:href|action|data-begin|hx-get|hx-post|hx-push-url)="){_INSIDE}'
)
_FORMS = re.compile(
    r'<form\b(?=[^>]*\bmethod="post")(?![^>]*\baction="/dashboard/(?:zone|sign-out|account/password)")'
    r"[^>]*>.*?</form>",
    re.DOTALL,
)
# What belongs to such a form, elsewhere on its page.
_TICKS = re.compile(r'<label\b[^>]*><input\b[^>]*\sform="picked"[^>]*></label>')
# Links to pages that make or change something, and to those with secrets.
_WRITERS = re.compile(
    r'<a\b(?P<rest>[^>]*\shref="/dashboard/(?:(?:requests|recurring)/new|keys|signing|'
    r"recurring/\w+/change|requests/\w+/edit|system/(?:hold|grant))\b[^>]*)>(?P<words>.*?)</a>",
    re.DOTALL,
)
_LEADING = (b"location", b"hx-redirect", b"hx-push-url")
_INSIDE_ADDRESS = re.compile(_INSIDE)


def address_of(account_id: str, page: str = "/dashboard") -> str:
    """A page of the dashboard, as an operator sees it of this account; of those that operators do
    not see, the first one."""
    path = page.removeprefix("/dashboard") if _INSIDE_ADDRESS.match(page) else ""
    return LOOK + account_id + path


def looked_at(path: str) -> str:
    """The address below which an account is looked at; '' elsewhere."""
    found = _PREFIX.match(path)
    return found[0] if found else ""


def own_path(path: str) -> str:
    """A path as the account's holder has it."""
    prefix = looked_at(path)
    return "/dashboard" + path[len(prefix) :] if prefix else path


def kept_below(prefix: str, text: str) -> str:
    """A page, or a part of one, whose links stay below the prefix, and which can write nothing."""
    text = read_only(text)
    return _ADDRESSES.sub(lambda found: found[1] + prefix, text)


def read_only(text: str) -> str:
    """A page, or a part of one, without forms that write and links to pages that do."""
    return _WRITERS.sub(_words, _TICKS.sub("", _FORMS.sub("", text)))


def headers_below(prefix: str, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers by which an answer leads to another page, or names the address of this one."""
    return [
        (name, _INSIDE_ADDRESS.sub(prefix, value.decode(), count=1).encode())
        if name in _LEADING
        else (name, value)
        for name, value in headers
    ]


def _words(link: re.Match[str]) -> str:
    """Of a link in a sentence its words; nothing of a button."""
    return "" if "button" in link["rest"] else link["words"]
