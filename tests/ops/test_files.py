"""Image, compose file and values: what can be said of them without running them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from scheduler.settings import Settings, unknown_variables
from tests.metrics.catalogue import ROOT

DOCKERFILE = (ROOT / "ops/Dockerfile").read_text()


def test_the_dockerfile_passes_the_linter() -> None:
    found = shutil.which("hadolint") or str(Path(sys.executable).parent / "hadolint")
    done = subprocess.run(
        [found, str(ROOT / "ops/Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_image_has_every_package_of_the_wheel_and_may_see_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    seen = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for name in (*packages, "client"):
        assert f"COPY {name} {name}\n" in DOCKERFILE
        assert name in seen


def test_the_image_names_settings_that_there_are() -> None:
    named = re.findall(r"\b(POSTDATE_\w+)=", DOCKERFILE)
    assert named
    assert unknown_variables(dict.fromkeys(named, "")) == []
    assert f"EXPOSE {Settings().port} {Settings().metrics_port}\n" in DOCKERFILE


def test_compose_is_whole() -> None:
    compose = yaml.safe_load((ROOT / "ops/compose.yaml").read_text())
    services, volumes = compose["services"], compose["volumes"]
    for name, service in services.items():
        for each in service.get("volumes", []):
            source = each.partition(":")[0]
            assert source in volumes or (ROOT / "ops" / source).exists(), (name, source)
        assert set(service.get("depends_on", [])) <= services.keys()
        assert unknown_variables(service.get("environment", {})) == []
    command = " ".join(services["valkey"]["command"].split())
    for option in ("appendonly yes", "appendfsync always", "maxmemory-policy noeviction"):
        assert f"--{option} " in command
    assert command.endswith("--hash-max-listpack-value 4096")
    assert {services[name]["profiles"][0] for name in ("prometheus", "grafana")} == {"observe"}
    assert services["worker"]["stop_grace_period"] == "45s"


def test_prometheus_finds_the_services_that_there_are() -> None:
    config = yaml.safe_load((ROOT / "ops/prometheus/prometheus.yml").read_text())
    [found] = config["scrape_configs"][0]["dns_sd_configs"]
    compose = yaml.safe_load((ROOT / "ops/compose.yaml").read_text())
    assert set(found["names"]) <= compose["services"].keys()
    assert found["port"] == Settings().metrics_port
    for file in config["rule_files"]:
        assert (ROOT / "ops/prometheus" / file).exists()


def test_the_chart_is_short_and_of_this_version() -> None:
    assert len((ROOT / "ops/chart/values.yaml").read_text().splitlines()) < 60
    chart = yaml.safe_load((ROOT / "ops/chart/Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
