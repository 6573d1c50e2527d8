"""What docs/reference/recurring.md shows does what it says, against a real Postdate: a shell runs
each line after `$`, and its answer must be the one that is shown. Ids and moments are those of the run,
`…` is any text."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.programs import lack_of
from tests.support.customer import Customer
from tests.support.processes import ROOT
from tests.support.servers import Deployment

_DOCUMENT = (ROOT / "docs/reference/recurring.md").read_text()
_IDS = re.compile(r"\b(?:rec|sch|inv)_[0-9a-z]{26}\b")
_MOMENT = re.compile(
    r"\b(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|[A-Z][a-z]{2} [\d-]+ [\d:]+ [A-Z]+)\b"
)
# What may be another text in an answer, by its pattern.
_VARIES = {"id": _IDS.pattern, "moment": _MOMENT.pattern, "text": "…", "space": r"\s+"}
_ANY = {**_VARIES, "text": r"(?s:.*?)", "space": r"\s*"}
_VARYING = re.compile("|".join(f"(?P<{name}>{text})" for name, text in _VARIES.items()))
_SHELL = """
curl() { command curl --disable --silent --show-error --noproxy '*' "$@"; }
postdate() { "$PYTHON" -m cli.main "$@"; }
"""

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason=lack_of("curl"))


class Shown(NamedTuple):
    """A command, and its answer as it is shown."""

    command: str
    answer: str


def shown() -> Iterator[Shown]:
    for block in re.findall(r"```console\n(.*?)```", _DOCUMENT, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            end = next(n for n in range(len(lines)) if _is_whole("\n".join(lines[: n + 1]))) + 1
            yield Shown("\n".join(lines[:end]), "\n".join(lines[end:]))


def _is_whole(command: str) -> bool:
    return command.count("'") % 2 == 0 and not command.endswith("\\")


@pytest.fixture(scope="module")
def customer() -> Iterator[Customer]:
    with Deployment() as running:
        running.api()
        yield running.customer()


def test_each_command_is_answered_as_it_is_shown(customer: Customer) -> None:
    real: dict[str, str] = {}  # by the document's id
    environment = {
        **os.environ,
        "API": customer.base_url,
        "KEY": f"x-api-key: {customer.key}",
        "PYTHON": sys.executable,
        "POSTDATE_URL": customer.base_url,
        "POSTDATE_API_KEY": customer.key,
    }
    for command, answer in shown():
        text = _IDS.sub(lambda found: real.get(found[0], found[0]), command)
        done = subprocess.run(
            ["sh", "-c", _SHELL + text], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert re.fullmatch(pattern(answer), done.stdout.strip()), f"{command}\n{done.stdout}"
        real.update(zip(_IDS.findall(answer), _IDS.findall(done.stdout), strict=False))
    assert len(real) > 1


def pattern(answer: str) -> str:
    """Of one that is the same but for ids, moments, gaps and the room between."""
    parts, at = [], 0
    for found in _VARYING.finditer(answer.strip()):
        parts += [re.escape(answer.strip()[at : found.start()]), _ANY[found.lastgroup or ""]]
        at = found.end()
    return "".join(parts) + re.escape(answer.strip()[at:])
