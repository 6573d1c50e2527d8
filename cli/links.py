"""One-time links to the dashboard, as addresses to follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.settings import Settings

if TYPE_CHECKING:
    from scheduler.store import Store


async def known_link(settings: Settings, store: Store, secret: str) -> str:
    """Where the link leads: under our own public URL, or where a running API says that it is, or
    else where one of these settings would listen."""
    known = None if settings.public_url else await store.address.known()
    return link_url(settings, secret, base_url=known)


def link_url(settings: Settings, secret: str, *, base_url: str | None = None) -> str:
    """Under the public URL, or `base_url`, or else where the API listens."""
    base = settings.public_url or base_url or settings.url
    return f"{base}/dashboard/link/{secret}"
