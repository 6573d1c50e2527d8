"""A request as the curl line that makes it. Pure."""

from __future__ import annotations

import shlex

from api.masks import MASK, masked
from scheduler.models import Request


def curl_of(request: Request) -> str:
    """What a shell can run to send this request by hand. Header values that look like secrets are
    left to whoever runs it."""
    words = ["curl", "--request", request.method, request.url]
    headers = masked(request.headers)
    if request.body is not None and not any(n.lower() == "content-type" for n in headers):
        headers = {"Content-Type": "application/json", **headers}
    for name, value in headers.items():
        shown = f"<{name}>" if value == MASK else value
        words += ["--header", f"{name}: {shown}"]
    if request.body is not None:
        words += ["--data-raw", request.body.decode()]
    return _on_lines(words)


def _on_lines(words: list[str]) -> str:
    """The command, and an option with its value on each further line."""
    first = " ".join(shlex.quote(word) for word in words[:4])
    rest = [f"  {words[i]} {shlex.quote(words[i + 1])}" for i in range(4, len(words), 2)]
    return " \\\n".join([first, *rest])
