"""The limit of open files: raised where it can be, left where it cannot."""

from __future__ import annotations

import resource

import pytest

from cli.roles import raise_limit

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ((1024, 4096), [(4096, 4096)]),
        ((1024, INFINITE), [(65_536, INFINITE)]),
        ((4096, 4096), []),
        ((INFINITE, INFINITE), []),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_it_goes(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], asked: list[tuple[int, int]]
) -> None:
    wanted: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: wanted.append(pair))
    raise_limit()
    assert wanted == asked


def test_a_system_that_refuses_does_not_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()
