"""A request as the curl line that makes it. Pure."""

from __future__ import annotations

import shlex
from base64 import b64encode
from urllib.parse import quote

from api.masks import MASK, masked, masked_url
from scheduler.models import Request
from scheduler.texts import visible


def curl_of(request: Request) -> str:
    """What a shell can run to send this request by hand. Values that look like secrets are
    left to whoever runs it."""
    words = ["curl", "--request", request.method, _as_sent(masked_url(request.url))]
    headers = masked(request.headers)
    if request.body is not None and not any(n.lower() == "content-type" for n in headers):
        headers = {"Content-Type": request.body_kind.content_type, **headers}
    for name, value in headers.items():
        shown = f"<{name}>" if value == MASK else value
        words += ["--header", f"{name}: {shown}"]
    if request.body is None:
        return _on_lines(words)
    text = _as_an_argument(request.body)
    if text is not None:
        return _on_lines([*words, "--data-raw", text])
    piped = b64encode(request.body).decode()
    return f"echo {piped} | base64 -d |\n" + _on_lines([*words, "--data-binary", "@-"])


def _as_an_argument(body: bytes) -> str | None:
    """None for what no shell can hand over, or what would not be seen as it is."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if visible(text) == text else None


def _as_sent(url: str) -> str:
    """What would not be seen as it is stands as the octets that are sent of it."""
    return "".join(each if visible(each) == each else quote(each) for each in url)


def _on_lines(words: list[str]) -> str:
    """The command, and an option with its value on each further line."""
    first = " ".join(shlex.quote(word) for word in words[:4])
    rest = [f"  {words[i]} {shlex.quote(words[i + 1])}" for i in range(4, len(words), 2)]
    return " \\\n".join([first, *rest])
