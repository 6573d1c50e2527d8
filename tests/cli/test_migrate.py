"""`postdate migrate`: one format so far, and none but that is touched."""

from __future__ import annotations

from redis import Redis

from scheduler.store import keys
from scheduler.store.operators.shards import FORMAT
from tests.servers import ValkeyProcess, postdate, postdate_json


def test_a_store_of_our_format_has_nothing_to_migrate(valkey: ValkeyProcess) -> None:
    answer = {"format": FORMAT, "migrated": False}
    assert postdate_json("migrate", redis_url=valkey.url) == answer
    assert postdate_json("migrate", redis_url=valkey.url) == answer


def test_another_format_is_refused_with_what_to_do(valkey: ValkeyProcess) -> None:
    with Redis.from_url(valkey.url) as redis:
        for other, advice in ((FORMAT + 1, "newer version"), (FORMAT - 1, "before the first")):
            stored = {b"shards": b"4", b"format": b"%d" % other}
            redis.delete(keys.META)
            redis.hset(keys.META, mapping=stored)
            done = postdate("migrate", redis_url=valkey.url)
            assert done.returncode == 1
            assert f"has format {other}, " in done.stderr
            assert advice in done.stderr
            assert redis.hgetall(keys.META) == stored
