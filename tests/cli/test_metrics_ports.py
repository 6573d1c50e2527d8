"""Which metrics port each child has."""

from __future__ import annotations

import pytest

from cli.children import with_metrics_port
from scheduler.errors import SettingsError
from scheduler.settings import Settings, from_environment


def test_children_have_the_ports_one_after_the_other_or_none_where_it_is_turned_off() -> None:
    for first, ports in ((9464, [9464, 9465, 9466]), (0, [0, 0, 0])):
        settings = Settings(metrics_port=first)
        assert [with_metrics_port(settings, n).metrics_port for n in range(3)] == ports
    with pytest.raises(SettingsError, match="POSTDATE_METRICS_PORT cannot be 65534"):
        with_metrics_port(Settings(metrics_port=65_534), 2)


@pytest.mark.parametrize("text", ["localhost", "nonsense", "127.0.0.1:9464"])
def test_the_host_is_an_address(text: str) -> None:
    with pytest.raises(SettingsError, match="POSTDATE_METRICS_HOST"):
        from_environment({"POSTDATE_METRICS_HOST": text})
