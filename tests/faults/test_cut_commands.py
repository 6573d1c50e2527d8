"""The store goes away after each command that an operator's command line sends: what it then says
is true."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import pytest
from redis import Redis

from scheduler.store import keys
from tests.support.servers import DroppingProxy, ValkeyProcess, postdate, postdate_json

pytestmark = pytest.mark.usefixtures("hasty_repeats")
_UNKNOWN = "it may be done, or a part of it"
_EVER = 10**9


class Act(NamedTuple):
    """A command about the account `one`. `again`: how it ends if it is done already."""

    words: str
    again: int = 0


ACTS = [
    Act("account create two --credits 5", again=1),
    Act("account grant one 5"),
    Act("account plan one pro"),
    Act("account suspend one"),
    Act("account resume one"),
    Act("account rename one two", again=1),
    Act("account delete {account} --yes", again=1),
    Act("account link one"),
    Act("key create one --name second"),
    Act("key deactivate {key}"),
    Act("hold"),
    Act("resume"),
]


@pytest.fixture
def server(valkey: ValkeyProcess) -> Redis:
    return Redis.from_url(valkey.url)


@pytest.mark.parametrize("act", ACTS, ids=[each.words.replace(" ", "-") for each in ACTS])
@pytest.mark.parametrize("lost", ["reply", "command"])
def test_a_cut_command_says_what_is_true(
    server: Redis, valkey: ValkeyProcess, proxy: DroppingProxy, act: Act, lost: str
) -> None:
    is_changed = True
    for nth in count(1):
        if is_changed:
            valkey.flush()
            account = postdate_json(
                "account", "create", "one", "--credits", "5", redis_url=valkey.url
            )
            made = postdate_json("key", "create", "one", "--name", "first", redis_url=valkey.url)
            words = act.words.format(key=made["keyId"], account=account["accountId"]).split()
            before = _dump(server)
        proxy.dropped = 0
        if lost == "reply":
            proxy.drop_reply(b"", nth=nth)
        proxy.drop_command(b"", nth=nth, times=_EVER)
        ended = postdate(*words, redis_url=proxy.url)
        proxy.heal()
        after, where = _dump(server), f"command {nth}: {ended.stderr}"
        is_changed = after != before
        if _UNKNOWN in ended.stderr:
            assert ended.returncode == 1
            again = postdate(*words, redis_url=valkey.url)
            assert again.returncode in (0, act.again), where + again.stderr
            is_changed = True
        elif ended.returncode == 1:
            assert "cannot be reached" in ended.stderr, where
            assert not is_changed, where
        else:
            assert ended.returncode == 0, where
        if is_changed:
            assert postdate("check", redis_url=valkey.url).returncode == 0, where
        if not proxy.dropped:
            assert ended.returncode == 0, where
            return


def _dump(server: Redis) -> dict[bytes, Any]:
    """All but the entries of acts: those are written before an act."""
    names = [each for each in server.scan_iter() if each != keys.ACTS.encode()]
    return {name: server.dump(name) for name in names}
