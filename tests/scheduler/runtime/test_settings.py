"""Settings: each variable read, each bad one named."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from scheduler.errors import SettingsError
from scheduler.models import Plan
from scheduler.runtime.settings import (
    LOOPBACK,
    Settings,
    from_environment,
    unknown_variables,
    without_password,
)
from scheduler.target.destinations import Denied


def networks(*texts: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


def test_what_is_not_set_has_its_default() -> None:
    environ = {"POSTDATE_PORT": " ", "POSTDATE_REDIS_URL": "", "PORT": "x"}
    assert from_environment(environ) == Settings()


NUMBERS = [
    ("port", 0), ("port", 65_535), ("workers", 4), ("processes", 4), ("shards", 32),
    ("concurrency", 1), ("max_connections_per_origin", 1), ("fire_timeout_ms", 500),
    ("lease_ms", 300), ("max_response_bytes", 0), ("keep_answer_bytes", 0),
    ("keep_answer_bytes", 16_384), ("max_body_bytes", 1024), ("max_batch_bytes", 2048),
    ("max_horizon_days", 1), ("schedule_retention_hours", 0), ("log_retention_days", 7),
    ("log_max_entries", 100), ("wait_replicas", 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        *((field, str(number), number) for field, number in NUMBERS),
        *(
            ("redis_url", f"{scheme}://h/s", f"{scheme}://h/s")
            for scheme in ("redis", "rediss", "unix", "redis+cluster", "redis+sentinel")
        ),
        ("data_dir", " /var/p d ", Path("/var/p d")),
        ("host", "0.0.0.0", "0.0.0.0"),
        ("store_malloc", "libc", "libc"),
        ("trusted_proxies", "10.0.0.0/8, fd00::/8", networks("10.0.0.0/8", "fd00::/8")),
        ("public_url", "https://p.example/", "https://p.example"),
        ("allow_targets", "none", ()),
        ("allow_targets", "127.0.0.0/8, ::1/128,", LOOPBACK),
        ("allow_targets", "10.0.0.7", networks("10.0.0.7/32")),
        ("deny_targets", "*.x", Denied(names=("*.x",))),
        ("allow_ports", "443", ((443, 443),)),
        ("destination_errors", "exact", "exact"),
        ("qstash", "on", "on"),
        ("log_level", "debug", "debug"),
    ],
)
def test_a_variable_sets_its_field(field: str, text: str, value: object) -> None:
    assert getattr(from_environment({f"POSTDATE_{field.upper()}": text}), field) == value


def test_what_looks_like_a_setting_and_is_none_is_told_with_what_may_be_meant() -> None:
    environ = {
        "PATH": "", "POSTDATE_PORT": "1", "POSTDATE_API_KEY": "x", "POSTDATE_URL": "x",
        "POSTDATE_RATE_PRO": "1", "POSTDATE_PROT": "1", "POSTDATE_Port": "1",
        "POSTDATE_QQQQQQQQ": "1",
    }  # fmt: skip
    assert unknown_variables(environ) == [
        "POSTDATE_PROT is no setting of Postdate; did you mean POSTDATE_PORT?",
        "POSTDATE_Port is no setting of Postdate; did you mean POSTDATE_PORT?",
        "POSTDATE_QQQQQQQQ is no setting of Postdate",
    ]


def test_rates_are_set_plan_by_plan() -> None:
    settings = from_environment({"POSTDATE_RATE_PRO": "7"})
    assert settings.rate_limits == {Plan.FREE: 10, Plan.PRO: 7, Plan.SCALE: 1000}
    assert Settings().rate_limits[Plan.PRO] == 100


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        *(
            ("POSTDATE_PORT", text, "it must be a whole number from 0 to 65535")
            for text in ("http", "65536", "-1", "²")
        ),
        ("POSTDATE_STORE_MALLOC", "fast", "it must be one of auto, libc"),
        ("POSTDATE_RATE_FREE", "0", "it must be a whole number at least 1"),
        ("POSTDATE_REDIS_URL", "localhost:6379", "it must start with redis://"),
        ("POSTDATE_PUBLIC_URL", "p.example", "it must start with http:// or https://"),
        ("POSTDATE_PUBLIC_URL", "https://", "it must name a host"),
        ("POSTDATE_PUBLIC_URL", "https://p.example:x", "Port could not be cast"),
        ("POSTDATE_PUBLIC_URL", "https://p.example/#a", "without user, query and fragment"),
        ("POSTDATE_ALLOW_TARGETS", "10.0.0.1/8", "10.0.0.1/8 has host bits set"),
        ("POSTDATE_ALLOW_PORTS", "80, https", "'https' is no port"),
        ("POSTDATE_FIRE_TIMEOUT_MS", "30001", "it must be a whole number from 1 to 30000"),
        ("POSTDATE_LEASE_MS", "299", "it must be a whole number from 300 to 3600000"),
    ],
)
def test_a_bad_value_is_a_sentence_that_names_the_variable(
    variable: str, text: str, why: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        from_environment({variable: text})
    assert str(raised.value).startswith(f"{variable} cannot be {text!r}: ")
    assert why in str(raised.value)


def test_a_flag_wins_over_its_variable() -> None:
    environ = {"POSTDATE_PORT": "1", "POSTDATE_HOST": "::1"}
    settings = from_environment(environ, {"port": "2"})
    assert (settings.port, settings.host) == (2, "::1")


def test_a_bad_flag_is_named_as_a_flag() -> None:
    with pytest.raises(SettingsError, match=r"^--redis-url cannot be '': it must start with"):
        from_environment({"POSTDATE_REDIS_URL": "redis://h"}, {"redis_url": ""})


def test_a_password_is_never_shown() -> None:
    assert without_password("redis://user:p@ss@host:1/0") == "redis://…@host:1/0"
    assert without_password("redis://host") == "redis://host"
    assert without_password("redis://host/0?password=secret") == "redis://host/0"
    with pytest.raises(SettingsError) as raised:
        from_environment({"POSTDATE_REDIS_URL": "redi://user:secret@host"})
    assert "secret" not in str(raised.value)
