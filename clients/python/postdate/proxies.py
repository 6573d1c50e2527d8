"""Whether the environment has requests go by way of a proxy."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_HOSTS = ("localhost", "127.0.0.1", "::1")

# This machine is reached directly, whatever proxy the environment names: as httpx spells it.
LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")


def is_proxied(base_url: str) -> bool:
    """True if HTTP_PROXY, HTTPS_PROXY or ALL_PROXY hold for it, and NO_PROXY does not."""
    parts = urlsplit(base_url)
    if parts.hostname is None or parts.hostname in _HOSTS:
        return False
    proxies = getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(
        parts.hostname
    )
