"""A body that is no JSON object, from the command line to the target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import PostdateProcess, Receiver, postdate, postdate_json

BYTES = bytes(range(256)) * 4


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    return {"url": postdate_up.base_url, "api_key": postdate_up.api_key}


def test_text_and_any_bytes_arrive_as_they_were_given(
    settings: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(BYTES)
    octets = "application/octet-stream"
    asked = [
        (("--text", "für später"), "für später".encode(), "text/plain; charset=utf-8"),
        (("--text", ""), b"", "text/plain; charset=utf-8"),
        (("--text", "@here"), b"@here", "text/plain; charset=utf-8"),
        (("--data", f"@{tmp_path}/data"), BYTES, octets),
        (("--base64", "AAEC/w=="), b"\x00\x01\x02\xff", octets),
        (("--data", "a=1", "--header", "Content-Type: application/x-www-form-urlencoded"),
         b"a=1", "application/x-www-form-urlencoded"),
    ]  # fmt: skip
    for number, (arguments, body, content_type) in enumerate(asked):
        path = f"/raw/{number}"
        url = receiver.url + path
        postdate_json("schedule", url, "--delay", "0s", *arguments, **settings)
        [received] = receiver.wait_for(1, path)
        assert (received.method, received.body) == ("POST", body)
        assert received.headers["content-type"] == content_type
        assert received.headers["content-length"] == str(len(body))


def test_one_body_is_enough(settings: dict[str, str], tmp_path: Path) -> None:
    arguments = ("schedule", "http://127.0.0.1:9999/", "--in", "1d", "--text", "a")
    for more, says in (
        (("--base64", "AA=="), "Give one body"),
        (("--data", f"@{tmp_path}/none"), "cannot be read: No such file"),
        (("--base64", "A"), "is not base64"),
    ):
        done = postdate(*arguments, *more, **settings)
        assert done.returncode == 2
        assert says in done.stderr
