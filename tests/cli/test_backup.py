"""`postdate backup`, and the moments that `postdate restore` takes."""

from __future__ import annotations

import stat
from pathlib import Path
from unittest.mock import patch

import pytest
from redis import Redis

import cli.operators
from cli.serving.data_dir import DataDir
from tests.support.servers import ValkeyProcess, in_days, postdate, postdate_json


@pytest.fixture
def server(valkey: ValkeyProcess) -> ValkeyProcess:
    """With a store that is on hold."""
    postdate_json("account", "create", "mine", redis_url=valkey.url)
    postdate_json("hold", redis_url=valkey.url)
    return valkey


def test_a_backup_is_its_owners_alone_and_made_while_no_file_is_rewritten(
    server: ValkeyProcess, tmp_path: Path
) -> None:
    def noting(data_dir: DataDir, to: Path, *, shown: bool) -> None:
        with Redis.from_url(server.url) as redis:
            settings.append(redis.config_get("auto-aof-rewrite-percentage"))
        copied(data_dir, to, shown=shown)

    copy, settings, copied = tmp_path / "a" / "copy", list[object](), cli.operators._copy
    with patch("cli.operators._copy", noting):
        made = postdate_json("backup", str(copy), data_dir=server.directory)
    assert made["backup"] == str(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    assert settings == [{"auto-aof-rewrite-percentage": "0"}]
    assert list((copy / "appendonlydir").iterdir())


@pytest.mark.parametrize(
    ("since_days", "until_days", "good"),
    [(-2, -1, True), (-2, -2, True), (-2, 1, False), (-1, -2, False), (1, 1, False)],
)
def test_what_may_have_been_fired_is_due_in_the_past(
    server: ValkeyProcess, since_days: int, until_days: int, good: bool
) -> None:
    """What comes due after now was not fired by anybody: it must not be ended."""
    since, until = (f"{in_days(n):%Y-%m-%dT%H:%M:%SZ}" for n in (since_days, until_days))
    done = postdate(
        *("restore", "--fired-since", since, "--fired-until", until, "--expire"),
        redis_url=server.url,
    )
    assert (done.returncode == 0) is good, done.stderr
    assert ("both before now" in done.stderr) is not good
