"""`postdate hold`, its `--status`, and `postdate resume`."""

from __future__ import annotations

from redis import Redis

from scheduler.store import keys
from tests.servers import ValkeyProcess, postdate, postdate_json


def test_it_is_asked_whether_it_is_on_hold_and_that_changes_nothing(valkey: ValkeyProcess) -> None:
    def status() -> dict[str, object]:
        return dict(postdate_json("hold", "--status", redis_url=valkey.url))

    empty = postdate("hold", "--status", redis_url=valkey.url)
    assert (empty.returncode, "The store is empty" in empty.stderr) == (1, True)
    postdate("resume", redis_url=valkey.url)
    shards = status()["shards"]
    assert status() == {"onHoldSince": None, "shardsOnHold": 0, "shards": shards}
    since = postdate_json("hold", redis_url=valkey.url)["onHoldSince"]
    assert status() == {"onHoldSince": since, "shardsOnHold": shards, "shards": shards}
    said = postdate("hold", "--status", redis_url=valkey.url).stdout
    assert said == f"On hold since {since}: nothing is claimed. `postdate resume` goes on.\n"
    postdate("resume", redis_url=valkey.url)
    said = postdate("hold", "--status", redis_url=valkey.url).stdout
    assert said == "Not on hold: what is due is claimed.\n"


def test_a_hold_that_was_cut_off_is_told_as_such(valkey: ValkeyProcess) -> None:
    postdate("resume", redis_url=valkey.url)
    shards = postdate_json("hold", "--status", redis_url=valkey.url)["shards"]
    with Redis.from_url(valkey.url) as redis:
        redis.set(keys.shard(1) + keys.HOLD, 1)
    said = postdate("hold", "--status", redis_url=valkey.url).stdout
    assert said.startswith(f"1 of {shards} shards are on hold, and the others are not: repeat")
