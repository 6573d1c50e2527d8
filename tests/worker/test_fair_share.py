"""Something scarce, and who may have it."""

from __future__ import annotations

from worker.fair_share import FairShare


def test_one_account_cannot_have_all() -> None:
    shares = FairShare(100)
    flood = sum(shares.take("flood") for _ in range(200))
    assert flood == 80
    assert shares.take("neighbour")
    for _ in range(flood):
        shares.give_back("flood")
    assert sum(shares.take("another") for _ in range(200)) == 80
