"""Every setting, read from the environment once, at start."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec

from scheduler.errors import SettingsError
from scheduler.models import Plan
from scheduler.runtime.variables import (
    one_of,
    read_address,
    read_http_url,
    read_ratio,
    read_redis_url,
    read_secret_keys,
    whole,
)
from scheduler.schema import LONGEST_TIMEOUT_S
from scheduler.target.destinations import (
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

LOOPBACK: tuple[Network, ...] = (
    ipaddress.ip_network("127.0.0.0/8"),
    ipaddress.ip_network("::1/128"),
)

_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_CLOSE = 0.8  # of names that all begin alike
# Where a customer's commands find a Postdate, and with which key.
_OF_THE_COMMAND_LINE = {"POSTDATE_URL", "POSTDATE_API_KEY"}
_RATES = {Plan.FREE: 10, Plan.PRO: 100, Plan.SCALE: 1000}
_STORED_BYTES = {Plan.FREE: 64 * 2**20, Plan.PRO: 2**30, Plan.SCALE: 16 * 2**30}


class Settings(msgspec.Struct, frozen=True):
    """One process's settings, each with the reader of its variable's text. `from_environment` reads
    them; docs/reference/settings.md has the table."""

    redis_url: Annotated[str | None, read_redis_url] = None
    data_dir: Annotated[Path, Path] = Path(".postdate")
    host: Annotated[str, str] = "127.0.0.1"
    port: Annotated[int, whole(0, 65535)] = 8000
    metrics_host: Annotated[str, read_address] = "127.0.0.1"
    metrics_port: Annotated[int, whole(0, 65535)] = 9464
    fires_per_worker: Annotated[int, whole(1, 1_000_000)] = 2000
    workers: Annotated[int, whole(1, 256)] = 1
    processes: Annotated[int, whole(1, 256)] = 1
    public_url: Annotated[str | None, read_http_url] = None
    trusted_proxies: Annotated[tuple[Network, ...], read_networks] = ()
    shards: Annotated[int | None, whole(1, 256)] = None
    allowed_hosts: Annotated[tuple[str, ...], read_names] = ()
    allow_targets: Annotated[tuple[Network, ...], read_networks] = ()
    deny_targets: Annotated[Denied, read_denied] = Denied()
    allow_ports: Annotated[Ports, read_ports] = WEB_PORTS
    destination_errors: Annotated[str, one_of("same", "exact")] = "same"
    concurrency: Annotated[int, whole(1, 65_536)] = 4096
    max_connections_per_origin: Annotated[int, whole(1, 65_536)] = 256
    held_bytes: Annotated[int, whole(1)] = 64 * 1024 * 1024
    fire_timeout_ms: Annotated[int, whole(1, 1000 * LONGEST_TIMEOUT_S)] = 1000 * LONGEST_TIMEOUT_S
    lease_ms: Annotated[int, whole(300, 3_600_000)] = 15_000
    claim_ahead_ms: Annotated[int, whole(0, 1000)] = 50
    max_response_bytes: Annotated[int, whole(0)] = 64 * 1024
    keep_answer_bytes: Annotated[int, whole(0, 16 * 1024)] = 1024
    callback_body_bytes: Annotated[int, whole(0, 1024 * 1024)] = 64 * 1024
    max_body_bytes: Annotated[int, whole(1)] = 256 * 1024
    max_batch_bytes: Annotated[int, whole(1)] = 16 * 1024 * 1024
    bodies_bytes: Annotated[int, whole(1)] = 256 * 1024 * 1024
    body_grace_ms: Annotated[int, whole(10, 3_600_000)] = 10_000
    body_bytes_per_s: Annotated[int, whole(1)] = 10 * 1024
    max_head_bytes: Annotated[int, whole(256, 16 * 1024 * 1024)] = 16 * 1024
    head_timeout_ms: Annotated[int, whole(10, 3_600_000)] = 10_000
    idle_timeout_ms: Annotated[int, whole(10, 3_600_000)] = 75_000
    max_connections: Annotated[int, whole(1, 1_000_000)] = 4096
    max_connections_per_address: Annotated[int, whole(0, 1_000_000)] = 1024
    qstash: Annotated[str, one_of("off", "on")] = "off"
    max_horizon_days: Annotated[int, whole(1, 36_500)] = 5 * 366
    schedule_retention_hours: Annotated[int, whole(0, 87_600)] = 24
    failed_retention_hours: Annotated[int, whole(1, 87_600)] = 168
    failed_max: Annotated[int, whole(1, 10_000_000)] = 100_000
    log_retention_days: Annotated[int, whole(1, 3_650)] = 30
    log_max_entries: Annotated[int, whole(100)] = 1_000_000
    wait_replicas: Annotated[int, whole(0, 64)] = 0
    max_memory_bytes: Annotated[int | None, whole(16 * 1024 * 1024)] = None
    store_malloc: Annotated[str, one_of("auto", "libc")] = "auto"
    rate_limits: dict[Plan, int] = msgspec.field(default_factory=lambda: dict(_RATES))
    stored_bytes: dict[Plan, int] = msgspec.field(default_factory=lambda: dict(_STORED_BYTES))
    log_level: Annotated[str, one_of("debug", "info", "warning", "error")] = "info"
    trace_ratio: Annotated[float | None, read_ratio] = None
    secret_key: Annotated[tuple[bytes, ...], read_secret_keys] = ()

    @property
    def destinations(self) -> Destinations:
        return Destinations(self.allow_targets, self.deny_targets, self.allow_ports)

    @property
    def url(self) -> str:
        """The API's public URL, or where it listens; if that is all addresses, loopback."""
        if self.public_url:
            return self.public_url
        host = _HERE.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


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
    sentences = []
    for name in found:
        close = get_close_matches(name.upper(), known, n=1, cutoff=_CLOSE)
        hint = f"; did you mean {close[0]}?" if close else ""
        sentences.append(f"{name} is no setting of Postdate{hint}")
    return sentences


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


_BY_PLAN = {f"{name}_{plan}": whole(1) for name in ("rate", "stored_bytes") for plan in _RATES}
_READERS: dict[str, Callable[[str], object]] = _BY_PLAN | {
    field: hint.__metadata__[0]
    for field, hint in get_type_hints(Settings, include_extras=True).items()
    if get_origin(hint) is Annotated
}
