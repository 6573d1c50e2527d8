"""Image, compose file and values: what can be said of them without running them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from scheduler.runtime.settings import unknown_variables
from tests.metrics.catalogue import ROOT

DOCKERFILE = (ROOT / "ops/Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "ops/compose.yaml").read_text())


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
    for name in (*packages, "clients/python"):
        assert f"COPY {name} {name}\n" in DOCKERFILE
        assert name in seen


def test_compose_is_whole() -> None:
    services, volumes = COMPOSE["services"], COMPOSE["volumes"]
    for name, service in services.items():
        for each in service.get("volumes", []):
            source = each.partition(":")[0]
            assert source in volumes or (ROOT / "ops" / source).exists(), (name, source)
        assert set(service.get("depends_on", [])) <= services.keys()
        ours = {each for each in service.get("environment", {}) if not each.startswith("GF_")}
        assert unknown_variables(dict.fromkeys(ours, "")) == []
    command = " ".join(services["valkey"]["command"].split())
    for option in ("appendonly yes", "appendfsync always", "maxmemory-policy noeviction"):
        assert f"--{option} " in command


def test_composes_store_is_reached_by_postdate_alone() -> None:
    services = COMPOSE["services"]
    in_it = {name for name, service in services.items() if "store" in service.get("networks", [])}
    assert in_it == {"valkey", "api", "worker", "admin"}
    assert services["valkey"]["networks"] == ["store"]
    assert COMPOSE["networks"]["store"] == {"internal": True}
    published = [port for each in services.values() for port in each.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_each_container_is_confined(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["ulimits"]["core"] == 0
    assert service["pids_limit"] > 0
    assert service["mem_limit"]
    # Images of others are those that were tried, whatever their tag is moved to.
    own = service["image"] == "postdate:latest"
    assert own or re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", service["image"])


def test_the_system_service_is_confined() -> None:
    unit = (ROOT / "ops/systemd/postdate.service").read_text()
    for directive in (
        *("LimitCORE=0", "UMask=0077", "NoNewPrivileges=true", "CapabilityBoundingSet="),
        *("PrivateDevices=true", "PrivateTmp=true", "ProtectSystem=strict", "ProtectHome=true"),
        *("ProtectKernelTunables=true", "ProtectKernelModules=true", "LockPersonality=true"),
        *("RestrictNamespaces=true", "SystemCallFilter=@system-service"),
    ):
        assert f"\n{directive}\n" in unit, directive


@pytest.mark.parametrize("file", ["ops/Dockerfile", "ops/systemd/postdate.service"])
def test_what_is_installed_is_what_was_tested(file: str) -> None:
    """Of our own dependencies and of what builds us, old pips and new."""
    text = (ROOT / file).read_text()
    assert text.count("pip install") == 1
    before = text.partition("pip install")[0].rpartition("PIP_CONSTRAINT=")[2]
    assert before.startswith("constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt ")
