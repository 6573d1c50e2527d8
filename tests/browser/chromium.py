"""Debian's Chromium, driven by Playwright: the one without windows, where a machine has it.

The same engine shows the same pages, for half the work: no page has a window around it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

FLAGS = [
    "--no-sandbox",  # as root there is none, and it only sees our own pages
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")


def executable() -> str | None:
    """Where it is; None if this machine has none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser."""
    path = executable()
    assert path, "there is no Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
