"""The Helm chart, rendered as helm does it, and what it must say."""

from __future__ import annotations

import os
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scheduler.runtime.settings import Settings, unknown_variables
from tests.metrics.catalogue import ROOT, series
from tests.ops.test_rules import RUNBOOKS
from tests.programs import lack_of

CHART = ROOT / "ops/chart"
SPRIG = Path("/usr/share/gocode/src/github.com/Masterminds/sprig")
HAS_GO = shutil.which("go") is not None and SPRIG.exists()
KUBERNETES = "1.30"
# Kinds that clusters learn from others: no schema of theirs is in the package.
OF_OTHERS = {"ScaledObject", "PodMonitor", "PrometheusRule"}
SECRET_KEY = {"secretKeyRef": {"name": "postdate", "key": "secret-key"}}
STORE = [{"podSelector": {"matchLabels": {"app": "valkey"}}}]
ALL_ON: dict[str, Any] = yaml.safe_load("""
redis: {existingSecret: store}
env: {POSTDATE_LEASE_MS: "15000"}
envFrom: [{secretRef: {name: more}}]
ingress:
  {enabled: true, className: nginx, annotations: {a: b}, hosts: [postdate.test],
   tls: [{secretName: tls, hosts: [postdate.test]}]}
networkPolicy: {enabled: true, apiFrom: [{namespaceSelector: {}}]}
serviceAccount: {create: true, annotations: {a: b}}
affinity: {nodeAffinity: {}}
extraVolumes: [{name: ca, secret: {secretName: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /etc/ca, readOnly: true}]
keda: {enabled: true, minReplicas: 0}
monitoring:
  {podMonitor: true, rules: true, dashboard: true, labels: {x: "y"},
   runbooks: "https://wiki.here/runbooks"}
podAnnotations: {a: b}
nodeSelector: {disk: ssd}
tolerations: [{key: x, operator: Exists}]
imagePullSecrets: [{name: pull}]
""")
ALL_ON["env"]["POSTDATE_SECRET_KEY"] = {"valueFrom": SECRET_KEY}
ALL_ON["networkPolicy"]["egress"] = [{"to": STORE, "ports": [{"port": 6379}]}]

pytestmark = pytest.mark.skipif(
    shutil.which("helm") is None and not HAS_GO, reason=lack_of("helm or Go")
)


def rendered(folder: Path, chart: Path = CHART, **values: Any) -> subprocess.CompletedProcess[str]:
    given = folder / "values.yaml"
    given.write_text(yaml.safe_dump(values))
    if shutil.which("helm"):
        words = ["helm", "template", "mine", str(chart), "--namespace", "here", "-f", str(given)]
    else:
        words = ["go", "run", str(ROOT / "tests/ops/render/main.go"), str(chart), str(given)]
    environ = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
    environ["GOFLAGS"] = ""
    return subprocess.run(
        words, capture_output=True, text=True, timeout=280, check=False, env=environ
    )


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    done = rendered(tmp_path_factory.mktemp("chart"), **ALL_ON)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    [found] = [
        each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def test_kubernetes_takes_all_of_it(everything: list[dict[str, Any]]) -> None:
    assert len(everything) == 14
    for each in everything:
        if each["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(each, KUBERNETES, strict=True)


def test_pods_have_the_time_to_end_and_can_write_nowhere(everything: list[dict[str, Any]]) -> None:
    """A worker drains; the API leaves the service, and ends what is in flight."""
    for role, needed_s in (("worker", Settings().fire_timeout_ms / 1000), ("api", 5 + 10)):
        pod = of(everything, "Deployment", f"mine-{role}")["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert pod["terminationGracePeriodSeconds"] > needed_s
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert ports["metrics"] == Settings().metrics_port
        assert ports.get("http", Settings().port) == Settings().port
        assert unknown_variables({each["name"]: "" for each in container["env"]}) == []


def test_no_secret_has_to_be_written_into_a_pod(everything: list[dict[str, Any]]) -> None:
    pod = of(everything, "Deployment", "mine-worker")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    given = {each["name"]: each for each in container["env"]}
    secret_key, lease = "POSTDATE_SECRET_KEY", "POSTDATE_LEASE_MS"
    assert given[secret_key] == {"name": secret_key, "valueFrom": SECRET_KEY}
    assert given["POSTDATE_REDIS_URL"]["valueFrom"]["secretKeyRef"]["name"] == "store"
    assert given[lease] == {"name": lease, "value": "15000"}


def test_the_api_alone_is_reached_and_workers_alone_reach_the_internet(
    everything: list[dict[str, Any]],
) -> None:
    ingress, egress = {}, {}
    for role in ("api", "worker"):
        policy = of(everything, "NetworkPolicy", f"mine-{role}")["spec"]
        deployed = of(everything, "Deployment", f"mine-{role}")["spec"]["template"]
        selector = policy["podSelector"]["matchLabels"]
        assert selector.items() <= deployed["metadata"]["labels"].items()
        [container] = deployed["spec"]["containers"]
        ports = {each["name"] for each in container["ports"]}
        assert {rule["ports"][0]["port"] for rule in policy["ingress"]} == ports
        ingress[role], egress[role] = policy["ingress"], policy["egress"]
    [http, metrics] = ingress["api"]
    assert (http["from"], "from" in metrics) == ([{"namespaceSelector": {}}], False)
    dns, store, *others = egress["worker"]
    assert egress["api"] == [dns, store]
    assert (store["to"], {each["port"] for each in dns["ports"]}) == (STORE, {53})
    [internet] = others
    inside = [ip_network(each) for block in internet["to"] for each in block["ipBlock"]["except"]]
    for address in ("10.96.0.1", "169.254.169.254", "192.168.1.1", "fd00::1"):
        assert any(ip_address(address) in network for network in inside)


def test_workers_are_scaled_by_what_is_wanted_and_never_to_none(
    everything: list[dict[str, Any]],
) -> None:
    spec = of(everything, "ScaledObject", "mine-worker")["spec"]
    assert spec["minReplicaCount"] == 1  # though the values said 0
    [trigger] = spec["triggers"]
    assert trigger["type"] == "metrics-api"
    assert trigger["metadata"]["valueLocation"] in series()
    service = of(everything, "Service", "mine-metrics")
    assert f"//{service['metadata']['name']}.here.svc:9464/" in trigger["metadata"]["url"]
    labels = of(everything, "Deployment", "mine-api")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_rules_and_dashboard_are_the_very_ones(everything: list[dict[str, Any]]) -> None:
    text = (ROOT / "ops/prometheus/postdate.rules.yml").read_text()
    rules = yaml.safe_load(text.replace(RUNBOOKS, "https://wiki.here/runbooks"))
    assert of(everything, "PrometheusRule", "mine")["spec"] == rules
    dashboard = of(everything, "ConfigMap", "mine-dashboard")["data"]["postdate.json"]
    assert dashboard.strip() == (ROOT / "ops/grafana/postdate.json").read_text().strip()


def test_a_plain_one_has_no_kind_that_a_cluster_may_not_know(tmp_path: Path) -> None:
    done = rendered(tmp_path, redis={"url": "redis://store:6379/0"})
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert not {each["kind"] for each in objects} & (OF_OTHERS | {"Ingress", "ServiceAccount"})
    for role in ("api", "worker"):
        policy = of(objects, "NetworkPolicy", f"mine-{role}")
        kubernetes_validate.validate(policy, KUBERNETES, strict=True)
        assert {"ports": [{"port": 6379}]} in policy["spec"]["egress"]


def test_a_policy_that_would_cut_off_the_store_is_refused(tmp_path: Path) -> None:
    done = rendered(tmp_path, redis={"url": "redis://store:6379/0"}, networkPolicy={"egress": []})
    assert "networkPolicy.egress" in done.stderr
