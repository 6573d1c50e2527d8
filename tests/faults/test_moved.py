"""The store of `up` moves to another server, by the steps of docs/start/own-redis.md."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from tests.faults.steps import run, steps_of
from tests.programs import lack_of
from tests.support.servers import Customer, PostdateProcess, Receiver, free_port, postdate_json
from tests.support.valkey import ValkeyProcess


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("redis-cli") is None, reason=lack_of("redis-cli"))
def test_what_waits_in_the_embedded_store_moves_to_another_server(receiver: Receiver) -> None:
    plain, load, go_on, _ = steps_of("start/own-redis.md", "Move your data")
    target = receiver.url + "/hook"
    with PostdateProcess(lease_ms=2000) as up:
        with Customer(up.base_url, up.api_key) as customer:
            key = customer.key
            sent = customer.schedule(target)
            receiver.wait_for(1, "/hook")
            later = customer.schedule(target, due_in_s=30.0)
            run(plain.replace(".postdate/", f"{up.data_dir}/"), POSTDATE_DATA_DIR=str(up.data_dir))
            held = customer.schedule(target)
            credits = customer.credits()
        up.stop()
        with ValkeyProcess(port=free_port()) as server:
            assert server.tcp_url
            where = {"POSTDATE_REDIS_URL": server.tcp_url}
            assert "errors: 0," in run(load.replace(".postdate/", f"{up.data_dir}/"), **where)
            with (
                PostdateProcess(redis_url=server.tcp_url, lease_ms=2000) as moved,
                Customer(moved.base_url, key) as customer,
            ):
                assert customer.credits() == credits
                run(go_on, **where)
                assert customer.outcome(held)["status"] == "completed"
                assert customer.get(f"/schedule/{later}").json()["status"] == "scheduled"
                entries = customer.get("/stats/logs", status="executed").json()["logs"]
                assert [each["scheduleId"] for each in entries] == [held, sent]
            assert postdate_json("check", redis_url=server.tcp_url) == {"problems": []}
    assert Counter(each.schedule_id for each in receiver.requests) == {sent: 1, held: 1}
