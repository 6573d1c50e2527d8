"""The programs of docs/how-to/verify.md take genuine requests, and no others."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from tests.docs.pages import ROOT, read
from tests.programs import lack_of

SECRET, OTHER = (f"whsec_{base64.b64encode(byte * 32).decode()}" for byte in (b"a", b"b"))
BODY = '{"order": "Größe"}'
_PROGRAMS = {
    fence.language: fence.text
    for fence in read(ROOT / "docs/how-to/verify.md").fences
    if "request.json" in fence.text and "whsec_…" in fence.text
}
_COMMANDS = {"python": [sys.executable], "js": ["node"], "php": ["php"], "ruby": ["ruby"], "go": []}
_ENDINGS = {"python": "py", "js": "mjs", "php": "php", "ruby": "rb", "go": "go"}
Headers = dict[str, str]


def signed(minutes: float = 0, secret: str = SECRET) -> Headers:
    at = datetime.now(UTC) + timedelta(minutes=minutes)
    return {
        "webhook-id": "inv_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign("inv_1", at, BODY),
    }


def without(name: str) -> Headers:
    return {each: text for each, text in signed().items() if each != name}


def changed(name: str, text: str) -> Headers:
    return signed() | {name: text}


def during_a_rotation() -> Headers:
    both = [signed(secret=each)["webhook-signature"] for each in (OTHER, SECRET)]
    return changed("webhook-signature", " ".join(both))


CASES: dict[str, tuple[Callable[[], Headers], str, bool]] = {
    "genuine": (signed, BODY, True),
    "four minutes old": (lambda: signed(-4), BODY, True),
    "four minutes ahead": (lambda: signed(4), BODY, True),
    "signed with two secrets": (during_a_rotation, BODY, True),
    "another body": (signed, BODY + " ", False),
    "another secret": (lambda: signed(secret=OTHER), BODY, False),
    "another id": (lambda: changed("webhook-id", "inv_2"), BODY, False),
    "another time": (
        lambda: changed("webhook-timestamp", str(int(datetime.now(UTC).timestamp()) + 9)),
        BODY,
        False,
    ),
    "six minutes old": (lambda: signed(-6), BODY, False),
    "six minutes ahead": (lambda: signed(6), BODY, False),
    "a time that is none": (lambda: changed("webhook-timestamp", "soon"), BODY, False),
    "no signature": (lambda: without("webhook-signature"), BODY, False),
    "an empty signature": (lambda: changed("webhook-signature", ""), BODY, False),
    "a signature without bytes": (lambda: changed("webhook-signature", "v1,"), BODY, False),
    "no time": (lambda: without("webhook-timestamp"), BODY, False),
    "nothing": (dict, BODY, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("language", _COMMANDS)
def test_a_program_takes_genuine_requests_and_no_others(language: str, tmp_path: Path) -> None:
    program = {"python": sys.executable, "js": "node"}.get(language, language)
    if shutil.which(program) is None:
        pytest.skip(lack_of("Node.js 20" if program == "node" else program))
    source = tmp_path / f"verify.{_ENDINGS[language]}"
    source.write_text(_PROGRAMS[language].replace("whsec_…", SECRET))
    command = [*_COMMANDS[language], str(source)]
    if language == "go":
        command = [str(tmp_path / "verify")]
        subprocess.run(["go", "build", "-o", command[0], source], check=True)
    taken = {}
    for name, (headers, body, _) in CASES.items():
        asked = {"headers": headers(), "body": body}
        (tmp_path / "request.json").write_text(json.dumps(asked))
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        taken[name] = done.returncode == 0
        assert taken[name] == done.stdout.startswith("genuine"), done.stderr
    assert taken == {name: expected for name, (_, _, expected) in CASES.items()}
