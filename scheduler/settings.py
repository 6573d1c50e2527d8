"""Every setting, read from the environment once, at start."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from scheduler.destinations import (
    WEB_PORTS,
    Denied,
    Destinations,
    Network,
    Ports,
    read_denied,
    read_names,
    read_networks,
    read_ports,
)
from scheduler.errors import SettingsError
from scheduler.models import Plan
from scheduler.variables import (
    one_of,
    read_address,
    read_http_url,
    read_ratio,
    read_redis_url,
    read_secret_keys,
    whole,
)

LOOPBACK: tuple[Network, ...] = (
    ipaddress.ip_network("127.0.0.0/8"),
    ipaddress.ip_network("::1/128"),
)

DAY_MS = 86_400_000
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_CLOSE = 0.8  # of names that all begin alike
# Where a customer's commands find a Postdate, and with which key.
_OF_THE_COMMAND_LINE = {"POSTDATE_URL", "POSTDATE_API_KEY"}
_RATES = {Plan.FREE: 10, Plan.PRO: 100, Plan.SCALE: 1000}
_STORED_BYTES = {Plan.FREE: 64 * 2**20, Plan.PRO: 2**30, Plan.SCALE: 16 * 2**30}


class Settings(msgspec.Struct, frozen=True):
    """One process's settings. docs/settings.md has the table; `from_environment` reads them."""

    redis_url: str | None = None
    data_dir: Path = Path(".postdate")
    host: str = "127.0.0.1"
    port: int = 8000
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 9464
    fires_per_worker: int = 2000
    workers: int = 1
    processes: int = 1
    public_url: str | None = None
    trusted_proxies: tuple[Network, ...] = ()
    shards: int | None = None
    allowed_hosts: tuple[str, ...] = ()
    allow_targets: tuple[Network, ...] = ()
    deny_targets: Denied = Denied()
    allow_ports: Ports = WEB_PORTS
    destination_errors: str = "same"
    concurrency: int = 4096
    max_connections_per_origin: int = 256
    held_bytes: int = 64 * 1024 * 1024
    fire_timeout_ms: int = 30_000
    lease_ms: int = 15_000
    claim_ahead_ms: int = 25
    max_response_bytes: int = 64 * 1024
    keep_answer_bytes: int = 1024
    max_body_bytes: int = 256 * 1024
    max_batch_bytes: int = 16 * 1024 * 1024
    bodies_bytes: int = 256 * 1024 * 1024
    body_grace_ms: int = 10_000
    body_bytes_per_s: int = 10 * 1024
    max_head_bytes: int = 16 * 1024
    head_timeout_ms: int = 10_000
    idle_timeout_ms: int = 75_000
    max_connections: int = 4096
    max_connections_per_address: int = 1024
    max_horizon_days: int = 5 * 366
    schedule_retention_hours: int = 24
    failed_retention_hours: int = 168
    failed_max: int = 100_000
    log_retention_days: int = 30
    log_max_entries: int = 1_000_000
    wait_replicas: int = 0
    max_memory_bytes: int | None = None
    store_malloc: str = "auto"
    rate_limits: dict[Plan, int] = msgspec.field(default_factory=lambda: dict(_RATES))
    stored_bytes: dict[Plan, int] = msgspec.field(default_factory=lambda: dict(_STORED_BYTES))
    log_level: str = "info"
    trace_ratio: float | None = None
    secret_key: tuple[bytes, ...] = ()

    @property
    def destinations(self) -> Destinations:
        return Destinations(self.allow_targets, self.deny_targets, self.allow_ports)

    @property
    def url(self) -> str:
        """Where the API is found: the public address if there is one, else where it listens; of one
        that listens everywhere, on the machine itself."""
        if self.public_url:
            return self.public_url
        host = _HERE.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def schedule_retention_ms(self) -> int:
        return self.schedule_retention_hours * 3_600_000

    @property
    def failed_retention_ms(self) -> int:
        return self.failed_retention_hours * 3_600_000

    @property
    def log_retention_ms(self) -> int:
        return self.log_retention_days * DAY_MS


def from_environment(
    environ: Mapping[str, str], flags: Mapping[str, str] | None = None
) -> Settings:
    """The settings that the environment gives; `flags`, by field name, come from a command line
    and win. Raises SettingsError naming the bad variable or flag."""
    values: dict[str, Any] = {}
    for field, read in _READERS.items():
        name = f"POSTDATE_{field.upper()}"
        text = environ.get(name, "").strip() or None
        if flags and field in flags:
            name, text = "--" + field.replace("_", "-"), flags[field]
        if text is not None:
            values[field] = _value(name, text, read)
    return Settings(
        **{name: value for name, value in values.items() if name not in _BY_PLAN},
        rate_limits=_by_plan(values, "rate", _RATES),
        stored_bytes=_by_plan(values, "stored_bytes", _STORED_BYTES),
    )


def _by_plan(values: Mapping[str, Any], name: str, defaults: dict[Plan, int]) -> dict[Plan, int]:
    return {plan: values.get(f"{name}_{plan}", default) for plan, default in defaults.items()}


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence about each variable that looks like a setting and is none."""
    known = {f"POSTDATE_{field.upper()}" for field in _READERS} | _OF_THE_COMMAND_LINE
    found = sorted(
        name for name in environ if name.upper().startswith("POSTDATE_") and name not in known
    )
    return [
        _no_setting(name, get_close_matches(name.upper(), known, n=1, cutoff=_CLOSE))
        for name in found
    ]


def _no_setting(name: str, close: list[str]) -> str:
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{name} is no setting of Postdate{hint}"


def cidrs(networks: Iterable[Network]) -> str:
    """As `from_environment` reads them; empty for none."""
    return ",".join(map(str, networks))


def without_password(url: str) -> str:
    """A URL that may be shown: what stands before its `@`, and its query, are left out."""
    return re.sub(r"//.*@", "//…@", url).partition("?")[0]


def _value(name: str, text: str, read: Callable[[str], object]) -> object:
    try:
        return read(text)
    except ValueError as error:
        shown = without_password(text)
        raise SettingsError(f"{name} cannot be {shown!r}: {error}.") from None


_READERS: dict[str, Callable[[str], object]] = {
    "redis_url": read_redis_url,
    "data_dir": Path,
    "host": str,
    "port": whole(0, 65535),
    "metrics_host": read_address,
    "metrics_port": whole(0, 65535),
    "fires_per_worker": whole(1, 1_000_000),
    "workers": whole(1, 256),
    "processes": whole(1, 256),
    "public_url": read_http_url,
    "trusted_proxies": read_networks,
    "shards": whole(1, 256),
    "allowed_hosts": read_names,
    "allow_targets": read_networks,
    "deny_targets": read_denied,
    "allow_ports": read_ports,
    "destination_errors": one_of("same", "exact"),
    "concurrency": whole(1, 65_536),
    "max_connections_per_origin": whole(1, 65_536),
    "held_bytes": whole(1),
    "fire_timeout_ms": whole(1, 3_600_000),
    "lease_ms": whole(300, 3_600_000),
    "claim_ahead_ms": whole(0, 1000),
    "max_response_bytes": whole(0),
    "keep_answer_bytes": whole(0, 16 * 1024),
    "max_body_bytes": whole(1),
    "max_batch_bytes": whole(1),
    "bodies_bytes": whole(1),
    "body_grace_ms": whole(10, 3_600_000),
    "body_bytes_per_s": whole(1),
    "max_head_bytes": whole(256, 16 * 1024 * 1024),
    "head_timeout_ms": whole(10, 3_600_000),
    "idle_timeout_ms": whole(10, 3_600_000),
    "max_connections": whole(1, 1_000_000),
    "max_connections_per_address": whole(0, 1_000_000),
    "max_horizon_days": whole(1, 36_500),
    "schedule_retention_hours": whole(0, 87_600),
    "failed_retention_hours": whole(1, 87_600),
    "failed_max": whole(1, 10_000_000),
    "log_retention_days": whole(1, 3_650),
    "log_max_entries": whole(100),
    "wait_replicas": whole(0, 64),
    "max_memory_bytes": whole(16 * 1024 * 1024),
    "store_malloc": one_of("auto", "libc"),
    "rate_free": whole(1),
    "rate_pro": whole(1),
    "rate_scale": whole(1),
    "stored_bytes_free": whole(1),
    "stored_bytes_pro": whole(1),
    "stored_bytes_scale": whole(1),
    "trace_ratio": read_ratio,
    "secret_key": read_secret_keys,
    "log_level": one_of("debug", "info", "warning", "error"),
}
_BY_PLAN = {f"{name}_{plan}" for name in ("rate", "stored_bytes") for plan in _RATES}
