"""A backup made under load is restored after more was fired: nothing goes out twice, if that is
what the operator asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.support.processes import ROOT
from tests.support.servers import (
    Customer,
    PostdateProcess,
    Receiver,
    postdate,
    postdate_json,
    until,
)

EACH = 30


def test_nothing_that_was_fired_since_the_backup_goes_out_again(
    receiver: Receiver, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    target = receiver.url + "/hook"
    with PostdateProcess(lease_ms=2000) as up:
        with Customer(up.base_url, up.api_key) as customer:
            key = customer.key
            soon = [customer.schedule(target, due_in_s=0.5 + i * 0.05) for i in range(EACH)]
            later = customer.schedule(target, due_in_s=30.0)
            receiver.wait_for(5, "/hook")
            backup = postdate_json("backup", str(copy), data_dir=up.data_dir)
            lost = customer.schedule(target)
            receiver.wait_for(EACH + 1, "/hook")
        done = postdate("restore", "--fired-since", backup["at"], "--fire", data_dir=up.data_dir)
        assert "call `postdate hold` first" in done.stderr
    with PostdateProcess("up", "--hold", data_dir=str(copy), lease_ms=2000) as restored:
        assert "On hold since" in restored.stdout
        with Customer(restored.base_url, key) as customer:
            new = customer.schedule(target)
            decide, go_on = documented_steps(copy, backup["at"])
            found = re.search(r"(\d+)", run(decide))
            assert found
            assert 0 < int(found[1]) <= EACH + 1
            # It was due before the store was asked.
            assert customer.get(f"/schedule/{new}").json()["status"] == "failed"
            due_now = customer.schedule(target)
            run(go_on)
            assert customer.outcome(due_now)["status"] == "completed"
            assert customer.get(f"/schedule/{lost}").status_code == 404
            assert customer.get(f"/schedule/{later}").json()["status"] == "scheduled"
            sound = {"problems": []}
            until(lambda: postdate_json("check", data_dir=copy) == sound, "a sound store")
        times = Counter(each.schedule_id for each in receiver.requests)
        assert times == dict.fromkeys([*soon, lost, due_now], 1)


def documented_steps(directory: Path, fired_since: str) -> list[str]:
    """The last two blocks of docs/how-to/operations.md's restore, for a store in `directory`."""
    text = (
        (ROOT / "docs/how-to/operations.md")
        .read_text()
        .partition("**A restore is time travel.**")[2]
    )
    steps = re.findall(
        r"^ *```sh\n(.*?)^ *```$", text.partition("\n## ")[0], re.DOTALL | re.MULTILINE
    )
    now = datetime.now(UTC).isoformat()
    shell = "\0".join(steps[-2:]).replace("DIRECTORY", str(directory))
    shell = re.sub(r"(--fired-since) \S+", rf"\1 {fired_since}", shell)
    return re.sub(r"(--fired-until) \S+", rf"\1 {now}", shell).split("\0")


def run(block: str) -> str:
    """What the block prints, pasted into a shell."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", block],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
