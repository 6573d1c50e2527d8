"""A customer who creates all the time, whatever happens to the store."""

from __future__ import annotations

import threading
import time
from collections import Counter

from scheduler.store import keys
from tests.servers import Customer, Deployment, until

_PAUSE_S = 0.005  # in use, and not at its limit: all of it has to be fired and read as well


class Load(threading.Thread):
    """Creates without an end, due a little later; remembers acknowledged ones."""

    def __init__(self, customer: Customer, target: str) -> None:
        super().__init__(daemon=True)
        self.customer, self._target = customer, target
        self._over = threading.Event()
        self.ids: list[str] = []
        self.once: set[str] = set()  # those that are at-most-once
        self.unknown = 0
        self.codes: Counter[int] = Counter()
        self.slowest_s = 0.0
        self.start()

    def run(self) -> None:
        deliveries = "at-least-once", "at-most-once"
        while not self._over.is_set():
            delivery = deliveries[len(self.ids) % 2]
            began_s = time.monotonic()
            answer = self.customer.post(self._target, due_in_s=0.3, delivery=delivery)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            self.codes[answer.status_code] += 1
            if answer.status_code == 201:
                self.ids.append(answer.json()["scheduleId"])
                if delivery == deliveries[1]:
                    self.once.add(self.ids[-1])
            else:
                self.unknown += "unknown" in answer.text
            self._over.wait(_PAUSE_S)

    def more(self, count: int = 20) -> None:
        """Returns once so many more were accepted."""
        wanted = len(self.ids) + count
        until(lambda: len(self.ids) >= wanted, "creates that are accepted")

    def ended(self) -> set[str]:
        return {each["scheduleId"] for each in self.customer.log(status="completed")}

    def stop(self) -> None:
        self._over.set()
        self.join(30)


def two_customers(deployment: Deployment) -> tuple[Customer, Customer, int]:
    """One in each shard, and the slot of the first one's."""
    found: dict[int, Customer] = {}
    while len(found) < 2:
        customer = deployment.customer()
        found.setdefault(keys.parts(customer.account_id).shard, customer)
    return found[0], found[1], keys.slot(keys.tag(0))
