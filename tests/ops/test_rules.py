"""What the rules and the dashboard ask for is there, and alerts fire when they should."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.metrics.catalogue import ROOT, series
from tests.programs import lack_of

RULES = ROOT / "ops/prometheus/postdate.rules.yml"
TESTS = [
    ROOT / f"ops/prometheus/postdate.{name}.yml" for name in ("tests", "starts.tests", "days.tests")
]
RUNBOOKS = "https://postdate.example/alerts.md"
DASHBOARD = ROOT / "ops/grafana/postdate.json"
PROMTOOL = shutil.which("promtool")
# What no exporter of ours makes: every process has these from Prometheus' own client.
OF_THE_CLIENT = {"process_cpu_seconds_total", "process_start_time_seconds"}
_NAME = re.compile(r"\b(?:postdate|process)(?:_[a-z0-9]+)+\b|\bpostdate:[a-z0-9_:]+")


@functools.cache
def load(path: Path) -> Any:
    return yaml.load(path.read_text(), yaml.CSafeLoader)


def rules() -> list[dict[str, Any]]:
    return [rule for group in load(RULES)["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def panels() -> list[dict[str, Any]]:
    return json.loads(DASHBOARD.read_text())["panels"]  # type: ignore[no-any-return]


def dashboard_expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", []))


def test_every_metric_that_a_rule_or_the_dashboard_names_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    named = {
        name
        for expression in (*(rule["expr"] for rule in rules()), *dashboard_expressions())
        for name in _NAME.findall(expression)
    }
    assert len(named) > 20
    assert named - recorded - OF_THE_CLIENT <= series()
    assert recorded <= named, "recorded, and asked for by nobody"


def test_the_dashboard_has_all_of_callbacks_and_no_panel_lies_on_another() -> None:
    shown = {name for each in dashboard_expressions() for name in _NAME.findall(each)}
    assert {name for name in series() if name.startswith("postdate_callback")} <= shown
    places: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        mine = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not places & mine, panel["title"]
        assert max(x for x, _ in mine) < 24, panel["title"]
        places |= mine
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_alert_leads_to_its_runbook_and_every_runbook_has_an_alert() -> None:
    headings = re.findall(
        r"^## (\w+)$", (ROOT / "docs/reference/alerts.md").read_text(), re.MULTILINE
    )
    assert headings == [name for name in alerts() if name in headings]
    assert set(headings) == set(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{name.lower()}"
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_alert_is_shown_to_fire_and_to_be_silent() -> None:
    tests = [test for path in TESTS for test in load(path)["tests"]]
    cases = [each for test in tests for each in test["alert_rule_test"]]
    assert {each["alertname"] for each in cases if each["exp_alerts"]} == set(alerts())
    silent = {each["alertname"] for each in cases if not each["exp_alerts"]}
    # A slow burn is silent where a slower one fires; only that one has none below it.
    assert silent == set(alerts()) - {"PostdateLateSlow"}


def test_every_alert_on_a_counter_is_shown_to_fire_for_one_that_begins_above_zero() -> None:
    [increases] = [each["rules"] for each in load(RULES)["groups"] if "increases" in each["name"]]
    recorded = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}

    def is_of_counter(expression: str) -> bool:
        names = [name for name in _NAME.findall(expression) if name in recorded]
        counted = {rule["record"] for rule in increases}
        return any(name in counted or is_of_counter(recorded[name]) for name in names)

    [starts] = [path for path in TESTS if "starts" in path.name]
    cases = [each for test in load(starts)["tests"] for each in test["alert_rule_test"]]
    shown = {each["alertname"] for each in cases if each["exp_alerts"]}
    assert shown == {name for name, rule in alerts().items() if is_of_counter(rule["expr"])}


@pytest.mark.slow
@pytest.mark.skipif(PROMTOOL is None, reason=lack_of("promtool"))
@pytest.mark.parametrize("words", [("check", "rules", RULES), ("test", "rules", *TESTS)])
def test_promtool_is_content(words: tuple[object, ...]) -> None:
    done = subprocess.run(
        [str(PROMTOOL), *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.skipif(PROMTOOL is None, reason=lack_of("promtool"))
def test_promtool_can_read_what_the_dashboard_asks_for(tmp_path: Path) -> None:
    asked = [each.replace("$__rate_interval", "5m") for each in dashboard_expressions()]
    named = [{"record": f"panel:{n}", "expr": each} for n, each in enumerate(asked)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": named}]}))
    test_promtool_is_content(("check", "rules", path))
