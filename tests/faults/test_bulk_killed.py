"""An API process that is killed in the middle of a bulk action that it was pressed for."""

from __future__ import annotations

import re
from typing import Self

import httpx

from scheduler.store import Store
from scheduler.store.accounts.sign_in.sessions import Purpose
from scheduler.store.bulk.records import Bulk
from tests.support.servers import Deployment, Receiver, until

COUNT = 1500


class Viewer:
    """The account's holder, with a browser that shows any of the API processes."""

    def __init__(self, deployment: Deployment, base_url: str, account_id: str) -> None:
        async def make(store: Store) -> str:
            return await store.sessions.make_link(account_id, Purpose.SIGN_IN)

        self.deployment, self.account_id = deployment, account_id
        self._client = httpx.Client(base_url=base_url, headers={"origin": base_url}, verify=False)
        link = deployment.in_store(make)
        assert self._client.post(f"/dashboard/link/{link}").status_code == 303

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._client.close()

    def press(self, action: str, **fields: str) -> httpx.Response:
        """Asks, and confirms all that match."""
        text = self._client.get("/dashboard/keys").text
        csrf = re.findall(r'name="csrf" value="([^"]+)"', text)[0]
        given = {"csrf": csrf, "action": action, "scope": "matching", **fields}
        asked = self._client.post("/dashboard/requests/bulk", data=given).text
        once = re.findall(r'name="once" value="([^"]+)"', asked)[0]
        until_ms = re.findall(r'name="until" value="([^"]+)"', asked)[0]
        given |= {"confirmed": "1", "once": once, "until": until_ms}
        return self._client.post("/dashboard/requests/bulk", data=given)

    def action(self) -> Bulk:
        async def read(store: Store) -> Bulk:
            [found] = await store.bulks.all(self.account_id)
            return found

        return self.deployment.in_store(read)

    def text(self) -> str:
        return self._client.get("/dashboard").text


def test_another_process_goes_on_and_each_runs_again_once(receiver: Receiver) -> None:
    bad = receiver.answer("/hook", status=503)
    with Deployment() as deployment:
        killed = deployment.api()
        customer = deployment.customer(credits=2 * COUNT)
        deployment.worker()
        due = {"targetUrl": bad, "delay": "0s"}
        for _ in range(COUNT // 500):
            customer.schedule_batch([due] * 500)
        until(lambda: customer.counts() == (0, COUNT), "all to fail")
        receiver.answer("/hook")
        with Viewer(deployment, killed.base_url, customer.account_id) as viewer:
            assert viewer.press("again", status="failed").status_code == 303
            until(lambda: viewer.action().progress.done >= 200, "the action to begin")
            killed.kill()
        assert viewer.action().progress.done < COUNT, "it was killed in the middle"
        other = deployment.api()
        until(lambda: not viewer.action().is_due, "another process to finish", deadline_s=60)
        done = viewer.action().progress
        assert (done.done, done.refused, done.ended) == (COUNT, {}, (COUNT, 0, 0))
        with Viewer(deployment, other.base_url, customer.account_id) as viewer:
            assert "1,500 run again: 1,500 completed." in viewer.text()
        sent = {each.schedule_id for each in receiver.at("/hook")}
        assert len(sent) == 2 * COUNT, "each once, and once again"
        with httpx.Client(base_url=other.base_url, headers=customer.headers) as client:
            left = client.get("/stats/remaining-credits").json()
        assert left == {"creditsRemaining": 0}
        assert deployment.problems() == []
