"""A key is rotated and dropped while a customer's schedules wait."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from tests.support.servers import Customer, Deployment, Receiver, postdate

OLD, NEW = (b64encode(letter * 32).decode() for letter in (b"o", b"n"))
COUNT = 20


def test_an_old_key_is_dropped_and_everything_fires(receiver: Receiver) -> None:
    with Deployment() as running:

        def told(secret_key: str, *arguments: str) -> Any:
            done = postdate(
                *arguments, "--json", redis_url=running.valkey.url, secret_key=secret_key
            )
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        processes = [running.api(secret_key=OLD), running.worker(secret_key=OLD)]
        told(OLD, "hold")
        account = told(OLD, "account", "create", "acme", "--credits", "99", "--plan", "unlimited")
        key = told(OLD, "key", "create", "acme", "--name", "key")["key"]
        with Customer(running.apis[0].base_url, key, account["accountId"]) as customer:
            for number in range(COUNT):
                customer.schedule(receiver.url + "/fired", targetBody={"n": number})
        for process in processes:
            process.stop()
        both = f"{NEW},{OLD}"
        processes = [running.api(secret_key=both), running.worker(secret_key=both)]
        done = told(both, "reseal")
        assert (done["requests"], done["secrets"]) == (COUNT, 1)
        assert len(done["forgotten"]) == 1
        for process in processes:
            process.stop()
        running.api(secret_key=NEW)
        running.worker(secret_key=NEW)
        told(NEW, "resume")
        assert len(receiver.wait_for(COUNT, "/fired")) == COUNT
        assert told(NEW, "check")["problems"] == []
