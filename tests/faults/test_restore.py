"""A backup made under load is restored after more was fired: nothing goes out twice, if that is
what the operator asks for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import patch

import cli.backup
from cli.data_dir import DataDir
from tests.servers import Customer, PostdateProcess, Receiver, postdate, postdate_json, until

EACH = 30


def restored_since(moment: str, copy: Path, *how: str) -> dict[str, int]:
    found: dict[str, int] = postdate_json("restore", "--fired-since", moment, *how, data_dir=copy)
    return found


def test_nothing_that_was_fired_since_the_backup_goes_out_again(
    receiver: Receiver, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    target = receiver.url + "/hook"
    with PostdateProcess(lease_ms=2000) as up:
        with Customer(up.base_url, up.api_key) as customer:
            key = customer.key
            soon = [customer.schedule(target, due_in_s=0.5 + i * 0.05) for i in range(EACH)]
            later = [customer.schedule(target, due_in_s=30.0) for _ in range(3)]
        receiver.wait_for(5, "/hook")

        def slow_copy(data_dir: DataDir, to: Path) -> None:
            """As with a large store: more is fired, and logged, before the last byte is copied."""
            before = len(receiver.at("/hook"))
            receiver.wait_for(before + 5, "/hook")
            copied(data_dir, to)

        copied = cli.backup._copy
        with patch("cli.backup._copy", slow_copy):
            backup = postdate_json("backup", str(copy), data_dir=up.data_dir)
        with Customer(up.base_url, key) as customer:
            lost = customer.schedule(target)
            receiver.wait_for(EACH + 1, "/hook")
    with PostdateProcess("up", "--hold", data_dir=str(copy), lease_ms=2000) as restored:
        assert "On hold since" in restored.stdout
        with Customer(restored.base_url, key) as customer:
            new = customer.schedule(target)
            refused = postdate("restore", "--fired-since", "2026-01-01", "--expire", data_dir=copy)
            assert "this is no backup of" in refused.stderr
            until_backup = ("--fired-until", backup["at"], "--fire")
            assert restored_since(backup["at"], copy, *until_backup)["due"] < EACH
            assert 0 < restored_since(backup["at"], copy, "--expire")["expired"] <= EACH
            # It was due before the store was asked.
            assert customer.get(f"/schedule/{new}").json()["status"] == "failed"
            assert restored_since(backup["at"], copy, "--expire")["expired"] == 0
            due_now = customer.schedule(target)
            assert postdate_json("resume", data_dir=copy) == {"onHoldSince": None}
            assert customer.outcome(due_now)["status"] == "completed"
            assert customer.get(f"/schedule/{lost}").status_code == 404
            statuses = {customer.get(f"/schedule/{each}").json()["status"] for each in later}
            assert statuses == {"scheduled"}
            sound = {"problems": []}
            until(lambda: postdate_json("check", data_dir=copy) == sound, "a sound store")
        times = Counter(each.schedule_id for each in receiver.requests)
        assert times == dict.fromkeys([*soon, lost, due_now], 1)


def test_a_restore_is_for_a_store_on_hold_only(receiver: Receiver) -> None:
    with PostdateProcess() as up:
        done = postdate("restore", "--fired-since", "2026-11-01", "--fire", data_dir=up.data_dir)
        assert done.returncode == 1
        assert "call `postdate hold` first" in done.stderr
