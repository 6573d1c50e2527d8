"""Every request that goes out is signed, whatever its body; during a rotation by both secrets."""

from __future__ import annotations

import json
import time
from base64 import b64decode

import pytest
from standardwebhooks.webhooks import Webhook

from postdate import VerificationFailed, verify
from tests.servers import PostdateProcess, Receiver, postdate, postdate_json
from worker.signatures import GOOD_FOR_S

BODIES = [
    ("--body", '{"n": 1.50, "ü": [1,  2]}'),
    ("--text", "für später"),
    ("--text", ""),
    ("--base64", "AP+AAA=="),
    ("--method", "PUT"),
    ("--method", "HEAD"),
]


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    return {"url": postdate_up.base_url, "api_key": postdate_up.api_key}


def test_every_kind_of_body_is_signed(settings: dict[str, str], receiver: Receiver) -> None:
    [secret] = postdate_json("signing", "show", **settings)
    for number, arguments in enumerate(BODIES):
        path = f"/signed/{number}"
        url = receiver.url + path
        made = postdate_json("schedule", url, "--delay", "0s", *arguments, **settings)
        [received] = receiver.wait_for(1, path)
        assert received.headers["webhook-id"] == made["invocationId"]
        assert abs(int(received.headers["webhook-timestamp"]) - time.time()) < 60
        verify(received.headers, received.body, secret["secret"])
        with pytest.raises(VerificationFailed):
            verify(received.headers, received.body + b"x", secret["secret"])
        if arguments[0] == "--body":
            found = Webhook(secret["secret"]).verify(received.body, received.headers)
            assert found == json.loads(received.body)
    assert b64decode(BODIES[3][1]) == received_body(receiver, "/signed/3")


def received_body(receiver: Receiver, path: str) -> bytes:
    [received] = receiver.wait_for(1, path)
    return bytes(received.body)


def test_a_rotation_holds_within_its_bound(settings: dict[str, str], receiver: Receiver) -> None:
    def fits(path: str) -> tuple[bool, bool]:
        """Whether what goes out now is signed by the new secret, and by the old one."""
        postdate_json("schedule", receiver.url + path, "--delay", "0s", **settings)
        [received] = receiver.wait_for(1, path)
        return tuple(believed(received.headers, each["secret"]) for each in (new, old))  # type: ignore[return-value]

    def believed(headers: dict[str, str], secret: str) -> bool:
        try:
            verify(headers, b"", secret)
        except VerificationFailed:
            return False
        return True

    before = postdate_json("signing", "show", **settings)
    new, old, *_ = postdate_json("signing", "rotate", "--keep-for", "1d", **settings)
    assert old["secretId"] == before[0]["secretId"]
    time.sleep(GOOD_FOR_S)
    assert fits("/rotated/1") == (True, True)
    done = postdate("signing", "rotate", "--keep-for", "0", **settings)
    assert done.returncode == 0
    new, ended = postdate_json("signing", "show", **settings)[0], new
    time.sleep(GOOD_FOR_S)
    assert fits("/rotated/2") == (True, False)
    old = ended
    assert fits("/rotated/3") == (True, False)
    assert f"{new['secretId']}  {new['secret']}  since " in done.stdout
    done = postdate("signing", "rotate", "--keep-for", "8d", **settings)
    assert (done.returncode, "at most 7 days" in done.stderr) == (1, True)
