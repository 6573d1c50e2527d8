"""One-time links to the dashboard, as addresses to follow."""

from __future__ import annotations

from scheduler.settings import Settings


def link_url(settings: Settings, secret: str, *, base_url: str | None = None) -> str:
    """Where the link leads: under the public URL, or `base_url`, or else where the API listens."""
    base = settings.public_url or base_url or f"http://{_host(settings.host)}:{settings.port}"
    return f"{base}/dashboard/link/{secret}"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
