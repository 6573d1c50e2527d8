"""A request's curl line, pressed as it is shown: a target receives what the worker sends."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess

import pytest

from api.dashboard.requests.text import curl_of
from scheduler.models import BodyKind, Request
from scheduler.target.targets import parse_target
from tests.programs import lack_of
from tests.support.receiver import Received, Receiver
from worker.send.request import render

_CASES = {
    "a plain GET": ("GET", "/hook?a=1&b=2", {"X-A": "a b"}, None, BodyKind.JSON),
    "JSON": ("PUT", "/x?y='1'&z", {}, b"""{"it's": "$HOME `x`!"}""", BodyKind.JSON),
    "its own type": ("POST", "/", {"content-type": "a/b"}, b"{}", BodyKind.JSON),
    "text of lines": ("POST", "/", {}, b"\n@one\n\ttwo  \n", BodyKind.TEXT),
    "ends of lines that HTML joins": ("POST", "/", {}, b"one\r\ntwo\r", BodyKind.TEXT),
    "an empty text": ("POST", "/", {}, b"", BodyKind.TEXT),
    "bytes": ("POST", "/", {}, b"\x00\xff", BodyKind.BINARY),
    "a body over an argument's length": ("POST", "/", {}, b"x" * 150_000, BodyKind.TEXT),
    "unseen characters": ("POST", "/", {}, "\u202ecod".encode(), BodyKind.TEXT),
    "brackets and braces": ("GET", "/[1-3]/{a,b}?c[]=1&d={x}", {}, None, BodyKind.JSON),
    "dots in the path": ("GET", "/a/../b/./c", {}, None, BodyKind.JSON),
    "blanks and letters": ("GET", "/ä<b>?q=ö\u202e", {}, None, BodyKind.JSON),
    "HEAD": ("HEAD", "/", {}, None, BodyKind.JSON),
    "HEAD with a body": ("HEAD", "/", {}, b"{}", BodyKind.JSON),
    "OPTIONS": ("OPTIONS", "/", {}, None, BodyKind.JSON),
    "an empty header": ("GET", "/", {"X-Empty": "", "X-Next": "1"}, None, BodyKind.JSON),
    "a header in Latin-1": ("GET", "/", {"X-Name": "Zoë's \\ café"}, None, BodyKind.JSON),
    "POST without a body": ("POST", "/", {}, None, BodyKind.JSON),
    "DELETE without a body": ("DELETE", "/", {}, None, BodyKind.JSON),
}
# What the hint below the line says of each: Postdate's own, and who sends it.
_OWN = ("postdate-", "user-agent")

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason=lack_of("curl"))


def _seen(received: Received) -> tuple[str, str, dict[str, str], bytes]:
    headers = {n: v for n, v in received.headers.items() if not n.startswith(_OWN)}
    return received.method, received.path, headers, received.body


@pytest.mark.parametrize("case", _CASES)
def test_it_sends_what_the_worker_sends(receiver: Receiver, case: str) -> None:
    method, path, headers, body, kind = _CASES[case]
    request = Request(0, method, receiver.url + path, headers, body, body_kind=kind)
    with socket.create_connection(("127.0.0.1", receiver.port)) as connection:
        connection.sendall(render(parse_target(request.url), request, "sch_x", 1))
        [sent] = receiver.wait_for(1)
    command = curl_of(request).replace(
        "curl ", "curl --disable --silent --output /dev/null --noproxy '*' ", 1
    )
    subprocess.run(["bash"], input=command.encode(), check=True, timeout=30)
    _, received = receiver.wait_for(2)
    assert _seen(received) == _seen(sent)


def test_it_leaves_secrets_out() -> None:
    request = Request(0, "GET", "https://a.example/x?token=t&y=1", {"X-Key": "k"})
    assert shlex.split(curl_of(request).replace("\\\n", " "))[3:] == [
        "https://a.example/x?token=••••••••&y=1",
        "--header",
        "X-Key: <X-Key>",
    ]
