"""Each body arrives as the command line was given it, signed; in a rotation by both secrets."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from postdate import VerificationFailed, verify
from tests.support.commands import own_account
from tests.support.servers import PostdateProcess, Receiver, postdate_json

OCTETS = bytes(range(256)) * 4
TEXT, BINARY = "text/plain; charset=utf-8", "application/octet-stream"
FORM = "application/x-www-form-urlencoded"


def test_every_kind_of_body_is_signed(
    postdate_up: PostdateProcess, receiver: Receiver, tmp_path: Path
) -> None:
    settings = own_account(postdate_up, 20)  # whose secrets no worker knows
    (tmp_path / "data").write_bytes(OCTETS)
    secret = postdate_json("signing", "show", **settings)[0]["secret"]
    sent = [
        (("--body", '{"n": 1.50, "ü": [1,  2]}'), '{"n": 1.5, "ü": [1, 2]}', "application/json"),
        (("--text", "für später"), "für später", TEXT),
        (("--text", ""), "", TEXT),
        (("--data", f"@{tmp_path}/data"), OCTETS, BINARY),
        (("--base64", "AP+AAA=="), b"\0\xff\x80\0", BINARY),
        (("--data", "a=1", "--header", f"Content-Type: {FORM}"), "a=1", FORM),
        (("--method", "PUT"), "", None),
    ]
    for number, (arguments, body, content_type) in enumerate(sent):
        url = f"{receiver.url}/signed/{number}"
        made = postdate_json("schedule", url, "--delay", "0s", *arguments, **settings)
        [received] = receiver.wait_for(1, f"/signed/{number}")
        assert received.body == (body.encode() if isinstance(body, str) else body)
        assert received.headers.get("content-type") == content_type
        assert received.headers["webhook-id"] == made["invocationId"]
        assert abs(int(received.headers["webhook-timestamp"]) - time.time()) < 60
        verify(received.headers, received.body, secret)
        with pytest.raises(VerificationFailed):
            verify(received.headers, received.body + b"x", secret)
        if content_type == "application/json":
            found = Webhook(secret).verify(received.body, received.headers)
            assert found == json.loads(received.body)
