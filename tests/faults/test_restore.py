"""A backup made under load is restored after more was fired: nothing goes out twice, if that is
what the operator asks for."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.steps import run, steps_of
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
    """The steps of docs/how-to/backup.md that decide and go on, for a store in `directory`."""
    now = datetime.now(UTC).isoformat()
    shell = "\0".join(steps_of("how-to/backup.md", "Restore")[-2:])
    shell = shell.replace("DIRECTORY", str(directory))
    shell = re.sub(r"(--fired-since) \S+", rf"\1 {fired_since}", shell)
    return re.sub(r"(--fired-until) \S+", rf"\1 {now}", shell).split("\0")
