"""Under which names this API answers, against DNS rebinding: a site whose name leads to our address
could read a dashboard that answers under any name. The API itself needs a key. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from api.proxies import parsed
from scheduler.destinations import any_of, is_loopback
from scheduler.settings import Settings

_HEALTH = ("/healthz", "/readyz")
_PORT = re.compile(r":[0-9]*$")
_DASHBOARD = "/dashboard"


class Hosts:
    """The names in the settings, for all paths; or else, for the dashboard, the public address,
    `localhost` and every literal address. Health is answered under any."""

    def __init__(self, settings: Settings) -> None:
        names = settings.allowed_hosts or _names_of_its_own(settings)
        self._prefix = "" if settings.allowed_hosts else _DASHBOARD
        self._addresses = not settings.allowed_hosts
        self._allowed = any_of(names)

    def allows(self, host: str, path: str) -> bool:
        """Whether this path is answered under this `host`, with or without a port."""
        if self._allowed is None or not path.startswith(self._prefix) or path in _HEALTH:
            return True
        name = _PORT.sub("", host.lower()).removesuffix(".")
        return self._allowed.fullmatch(name) is not None or (
            self._addresses and parsed(name.strip("[]")) is not None
        )


def _names_of_its_own(settings: Settings) -> list[str]:
    """Empty where the settings do not tell."""
    if settings.public_url is not None:
        return ["localhost", urlsplit(settings.public_url).hostname or ""]
    return ["localhost"] if is_loopback(settings.host) else []
