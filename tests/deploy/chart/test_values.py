"""The values of the chart: all told, all typed, and nothing else accepted."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import NOT_BUILT, gates_of, parse_feature_gates
from tests.deploy import helm, values_table

SOURCE: Final = values_table.VALUES.read_text()
VALUES: Final[dict[str, Any]] = yaml.safe_load(SOURCE)
SCHEMA: Final[dict[str, Any]] = json.loads(values_table.SCHEMA.read_text())
REPORTED: Final = {value.path: value for value in values_table.values(SOURCE)}

Refusal = tuple[dict[str, object], str]

WRONG: Final[dict[str, Refusal]] = {
    "an unknown value": ({"replica": 2}, "replica"),
    "an unknown value further down": ({"leaderElection.enable": True}, "enable"),
    "a word for a number": ({"replicas": "two"}, "replicas"),
    "a mode that does not exist": ({"mode": "third"}, "mode"),
    "a duration without a unit": ({"leaderElection.leaseDuration": "15"}, "leaseDuration"),
    "a port that does not exist": ({"server.port": 70000}, "port"),
    "a digest that is a tag": ({"image.digest": "latest"}, "digest"),
    "a profile without a name": ({"config.profiles": [{"plugins": {}}]}, "schedulerName"),
    "an extension point that does not exist": (
        {"config.profiles": [{"schedulerName": "a", "plugins": {"scores": {}}}]},
        "scores",
    ),
    "a gate that is neither on nor off": ({"featureGates": {"A": "yes"}}, "featureGates"),
    "a gate that is misspelt": (
        {"featureGates": {"NodeDeclaredFeatures": True, "GenericWorkloads": True}},
        "featureGates.GenericWorkloads: there is no feature gate of this name",
    ),
    "a gate that is not built": (
        {"featureGates.DRAPartitionableDevicesType": True},
        "featureGates.DRAPartitionableDevicesType: cannot be switched on, it is not built: the type of a partition",
    ),
    "a gate that only a version has that is not followed": (
        {"featureGates.DRADeviceCompatibilityGroups": True, "extraArgs": ["--emulated-version=1.36"]},
        "featureGates.DRADeviceCompatibilityGroups: only Kubernetes 1.37 and 1.38 have it",
    ),
    "a gate that came later than the version that is followed": (
        {"featureGates.PodCertificateMLDSA": True, "extraArgs": ["--emulated-version=1.37"]},
        "featureGates.PodCertificateMLDSA: only Kubernetes 1.38 has it",
    ),
    "a gate that the followed version has dropped": (
        {"featureGates.DynamicResourceAllocation": True, "extraArgs": ["--emulated-version=1.38"]},
        "featureGates.DynamicResourceAllocation: only Kubernetes 1.36 and 1.37 have it",
    ),
    "a gate that the followed version has locked": (
        {"featureGates.DRADeviceTaints": False, "extraArgs": ["--emulated-version=kube=1.38"]},
        "featureGates.DRADeviceTaints: cannot be set to false, it is locked to true",
    ),
    "gates of two neighbouring versions": (
        {"featureGates": {"PodGroupPreemptionPolicy": False, "PodCertificateMLDSA": True}},
        (
            "with Kubernetes 1.38: featureGates.PodGroupPreemptionPolicy: only Kubernetes 1.37 has it. "
            "And with Kubernetes 1.37: featureGates.PodCertificateMLDSA: only Kubernetes 1.38 has it"
        ),
    ),
    "a gate that the version does not have, whose first release is named": (
        {"featureGates.DRADeviceCompatibilityGroups": True, "extraArgs": ["--emulated-version=v1.36.0"]},
        "featureGates.DRADeviceCompatibilityGroups: only Kubernetes 1.37 and 1.38 have it",
    ),
    "a gate that is locked": (
        {"featureGates.DynamicResourceAllocation": False},
        "featureGates.DynamicResourceAllocation: cannot be set to false, it is locked to true",
    ),
    "gates that no version takes together": (
        {"featureGates": {"GangScheduling": True, "DRADeviceCompatibilityGroups": True}},
        "featureGates.GangScheduling: only Kubernetes 1.36 has it",
    ),
    "gangs of 1.36": ({"featureGates.GangScheduling": True}, "featureGates.GangScheduling: cannot be switched on"),
    "a gate whose need is switched off": (
        {"featureGates.NodeDeclaredFeatures": False},
        "needs featureGates.NodeDeclaredFeatures",
    ),
    "a number beside a configuration of the user's": (
        {"config.existingConfigMap": "mine", "config.parallelism": 3},
        "config.existingConfigMap: parallelism is taken from there",
    ),
    "a switch beside a configuration of the user's": (
        {"config.existingConfigMap": "mine", "config.honorSchedulerNameAnnotation": True},
        "honorSchedulerNameAnnotation is taken from there",
    ),
    "a rate beside a configuration of the user's": (
        {"config.existingConfigMap": "mine", "config.clientConnection.qps": 3},
        "clientConnection.qps is taken from there",
    ),
    "a roll when a configuration of the user's changes": (
        {"config.existingConfigMap": "mine", "config.rollOnChange": True},
        "the chart does not see when",
    ),
    "a burst of no rate": ({"config.clientConnection.burst": 9}, "needs config.clientConnection.qps"),
    "a certificate for plain HTTP": (
        {"server.scheme": "HTTP", "tls.existingSecret": "mine"},
        "tls.existingSecret needs server.scheme HTTPS",
    ),
    "a fence that is not there": ({"networkPolicy.egress.enabled": True}, "need networkPolicy.enabled"),
    "rules of a fence that is not there": (
        {"networkPolicy.enabled": True, "networkPolicy.egress.extraRules": [{"to": []}]},
        "needs networkPolicy.egress.enabled",
    ),
    "readers of metrics without the role": (
        {"rbac.metricsReader.create": False, "rbac.metricsReader.subjects": [{"kind": "User", "name": "ann"}]},
        "rbac.metricsReader.subjects needs rbac.create and rbac.metricsReader.create",
    ),
    "rules without roles": (
        {"rbac.create": False, "rbac.nodeMetrics": True},
        "rbac.extraRules and rbac.nodeMetrics need rbac.create",
    ),
    "a gate without a name": ({"featureGates": {"": True}}, "featureGates.: there is no feature gate"),
    "pod groups that nobody has": ({"podGroups": ["coscheduling"]}, "podGroups"),
    "two replicas without election": ({"leaderElection.enabled": False}, "same room away twice"),
    "a Lease that ends before its renewal": (
        {"leaderElection.leaseDuration": "5s"},
        "leaderElection.leaseDuration: 5s must be greater than leaderElection.renewDeadline, 10s",
    ),
    "a Lease that ends with its renewal": (
        {"leaderElection.leaseDuration": "1m30s", "leaderElection.renewDeadline": "1.5m"},
        "leaderElection.leaseDuration: 1m30s must be greater than leaderElection.renewDeadline, 1.5m",
    ),
    "a deadline without a second attempt": (
        {"leaderElection.retryPeriod": "8s334ms"},
        "leaderElection.renewDeadline: 10s must be greater than 1.2 times leaderElection.retryPeriod, 8s334ms",
    ),
    "a Lease that nobody can renew in time": (
        {
            "leaderElection.leaseDuration": "999ms",
            "leaderElection.renewDeadline": "600ms",
            "leaderElection.retryPeriod": "100ms",
        },
        "leaderElection.leaseDuration: 999ms is too short",
    ),
    "a deadline that is too short": (
        {"leaderElection.renewDeadline": "400ms", "leaderElection.retryPeriod": "100ms"},
        "leaderElection.renewDeadline: 400ms is too short",
    ),
    "renewals without a pause": ({"leaderElection.retryPeriod": "99999us"}, "retryPeriod: 99999us is too short"),
    "two profiles of one name": (
        {"config.profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}, {"schedulerName": "a"}]},
        r"config.profiles\[2\].schedulerName: a is the name of another profile",
    ),
    "a profile with the name of a ready policy": (
        {"config.profiles": [{"schedulerName": "random"}], "config.policies": ["random"]},
        "config.policies: random is the name of another profile",
    ),
    "a scheduler with the name of a ready policy": (
        {"schedulerName": "random", "config.policies": ["random"]},
        "config.policies: random is the name of another profile",
    ),
    "kube-scheduler's place without election": (
        {"mode": "replace", "replicas": 1, "leaderElection.enabled": False},
        "at the same time",
    ),
    "two sources of profiles": (
        {"config.existingConfigMap": "mine", "config.profiles": [{"schedulerName": "a"}]},
        "one or the other",
    ),
    "a recording of what is not decided": (
        {
            "mode": "shadow",
            "replicas": 1,
            "leaderElection.enabled": False,
            "server.scheme": "HTTP",
            "recorder.enabled": True,
        },
        "decides nothing that could be recorded",
    ),
    "a recording on two volumes": (
        {"recorder.volume": {"emptyDir": {}, "hostPath": {"path": "/var"}}},
        "one source",
    ),
    "a recording without a size": ({"recorder.maxSize": "much"}, "maxSize"),
    "a recording that is too small": ({"recorder.maxSize": "1023Ki"}, "1023Ki is too little for a recording"),
    "a recording that is a little too small": ({"recorder.maxSize": "1M"}, "1M is too little for a recording"),
    "a recording of few bytes": ({"recorder.maxSize": "01048575"}, "01048575 is too little for a recording"),
    "a recording on a volume that does not exist": ({"recorder.volume": {"emptydir": {}}}, "emptydir"),
    "groups of groups without groups": (
        {"featureGates": {"CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}},
        "featureGates.CompositePodGroup needs featureGates.GenericWorkload",
    ),
    "groups of groups without topology": (
        {"podGroups": ["kubernetes"], "featureGates": {"CompositePodGroup": True}},
        "featureGates.CompositePodGroup needs featureGates.TopologyAwareWorkloadScheduling",
    ),
    "groups of groups with topology switched off": (
        {
            "podGroups": ["kubernetes"],
            "featureGates": {"CompositePodGroup": True, "AllAlpha": True, "TopologyAwareWorkloadScheduling": False},
        },
        "featureGates.CompositePodGroup needs featureGates.TopologyAwareWorkloadScheduling",
    ),
    "people who may ask where nobody can": (
        {"rbac.asker.create": True, "server.scheme": "HTTP"},
        "rbac.asker.create needs server.scheme HTTPS",
    ),
    "people who may ask without roles": ({"rbac.asker.create": True, "rbac.create": False}, "needs rbac.create"),
    "people on call where nobody can ask": (
        {"rbac.operator.create": True, "server.scheme": "HTTP"},
        "rbac.operator.create needs server.scheme HTTPS",
    ),
    "people on call without roles": ({"rbac.operator.create": True, "rbac.create": False}, "needs rbac.create"),
    "people on call without the role": (
        {"rbac.operator.subjects": [{"kind": "User", "name": "ann"}]},
        "subjects without rbac.operator.create",
    ),
    "people who may ask without a Service": (
        {"rbac.asker.create": True, "service.enabled": False},
        "needs service.enabled",
    ),
    "people who may ask without the role": (
        {"rbac.asker.subjects": [{"kind": "User", "name": "ann"}]},
        "subjects without rbac.asker.create",
    ),
    "a plugin that is no module": ({"plugins": {"my-plugin.py": "x = 1"}}, "plugins"),
    "plugins beside a configuration of the user's": (
        {"config.existingConfigMap": "mine", "plugins": {"cheap.py": "x = 1"}},
        "its pluginSources are taken",
    ),
    "two certificates": ({"tls.existingSecret": "mine", "tls.certManager.enabled": True}, "two certificates"),
    "a certificate without an issuer": ({"tls.certManager.enabled": True}, "which issuer?"),
    "a ServiceMonitor without a Service": (
        {"metrics.serviceMonitor.enabled": True, "service.enabled": False},
        "without a Service",
    ),
    "two plain ports": ({"server.scheme": "HTTP", "metrics.plain.enabled": True}, "one plain port"),
    "two monitors": ({"metrics.serviceMonitor.enabled": True, "metrics.podMonitor.enabled": True}, "twice"),
    "a profile that waits for itself": (
        {"podSchedulerName": "b", "config.profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]},
        "wait for itself",
    ),
    "a scheduler that waits for itself": ({"podSchedulerName": "kscheduler"}, "wait for itself"),
}


def leaves(node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all values, a map that is told as a whole being one."""
    for name, value in node.items():
        inner = f"{path}{name}"
        if inner not in REPORTED and isinstance(value, dict) and value:
            yield from leaves(value, f"{inner}.")
        else:
            yield inner


def objects_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", inner
        yield from objects_of(inner, f"{path}{name}.")


def test_every_value_is_reported() -> None:
    assert set(leaves(VALUES)) == set(REPORTED)


def test_readme_and_schema_say_what_the_comments_say() -> None:
    assert values_table.README.read_text() == values_table.readme(values_table.README.read_text(), SOURCE)
    assert values_table.SCHEMA.read_text() == values_table.schema_text(values_table.SCHEMA.read_text(), SOURCE)


def test_the_schema_has_no_value_that_the_chart_does_not_have() -> None:
    def exists(path: str) -> bool:
        heading = any(reported.startswith(f"{path}.") for reported in REPORTED)
        return path in REPORTED or heading or any(path.startswith(f"{reported}.") for reported in REPORTED)

    assert [path for path, _ in objects_of(SCHEMA) if not exists(path)] == []


def test_every_heading_refuses_what_it_does_not_know() -> None:
    headings = {path: inner for path, inner in objects_of(SCHEMA) if inner.get("properties") and path not in REPORTED}
    loose = [path for path, inner in headings.items() if inner.get("additionalProperties") is not False]
    # parent charts put values of their own there
    assert loose == ["global"]
    assert SCHEMA["additionalProperties"] is False


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_with_their_name(name: str) -> None:
    settings, expected = WRONG[name]
    with pytest.raises(helm.RefusedError, match=expected.replace("?", r"\?")):
        helm.render(settings=settings)


def test_a_parent_chart_may_set_its_globals() -> None:
    rendered = helm.render(settings={"global": {"imageRegistry": "registry.example", "storageClass": "fast"}})
    assert "image: registry.example/kscheduler:" in rendered


@pytest.mark.parametrize(
    "settings",
    [
        {"recorder.enabled": True, "recorder.maxSize": "1Mi"},
        {"recorder.maxSize": "1048576"},
        {"leaderElection.leaseDuration": "1m30s", "leaderElection.renewDeadline": "89.5s"},
        {"leaderElection.retryPeriod": "8s333ms"},
        {
            "leaderElection.leaseDuration": "1s",
            "leaderElection.renewDeadline": "500ms",
            "leaderElection.retryPeriod": "100ms",
        },
        {
            "leaderElection.enabled": False,
            "replicas": 1,
            "leaderElection.leaseDuration": "5s",
        },
        {"config.profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}], "config.policies": ["random"]},
        {"recorder.maxSize": "64Gi", "recorder.volume": {"persistentVolumeClaim": {"claimName": "recordings"}}},
        {
            "podGroups": ["kubernetes"],
            "featureGates": {"CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True},
        },
        {"podGroups": ["kubernetes"], "featureGates": {"CompositePodGroup": True, "AllAlpha": True}},
        {"rbac.asker.create": True, "rbac.asker.subjects": [{"kind": "User", "name": "ann"}]},
        *({"featureGates": {gate.name: gate.default for gate in gates_of(version).values()}} for version in BEHAVIOURS),
        {"featureGates": {"AllAlpha": True, "AllBeta": True}},
        {"featureGates": {"GenericWorkload": True}},
    ],
)
def test_what_is_just_enough_is_not_refused(settings: dict[str, Any]) -> None:
    assert helm.render(settings=settings)


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_the_chart_refuses_the_gates_that_the_service_would_end_by(version: str) -> None:
    """Each gate by itself, on and off, by the version's own rules: the first that is refused names itself."""
    for name, gate in sorted(gates_of(version).items()):
        if name in NOT_BUILT[version] or (gate.locked and name.startswith("D")):
            given = {"featureGates": {name: not gate.default}, "extraArgs": [f"--emulated-version={version}"]}
            with pytest.raises(ConfigError, match=name):
                parse_feature_gates(f"{name}={not gate.default}", version=version)
            with pytest.raises(helm.RefusedError, match=rf"featureGates\.{name}: cannot be"):
                helm.render(settings=given)


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_gates_that_one_version_alone_has_are_taken_for_it_alone(version: str) -> None:
    """All of them at once, with their defaults: it takes them, and each other version refuses each of them by name."""
    others = [other for other in BEHAVIOURS if other != version]
    alone = {
        name: gate.default
        for name, gate in gates_of(version).items()
        if not any(name in gates_of(other) for other in others)
    }
    assert len(alone) >= {"1.36": 20, "1.37": 1}.get(version, 5)
    assert helm.render(settings={"featureGates": alone})
    assert helm.render(settings={"featureGates": alone, "extraArgs": [f"--emulated-version={version}"]})
    for other in others:
        with pytest.raises(helm.RefusedError) as refused:
            helm.render(settings={"featureGates": alone, "extraArgs": [f"--emulated-version={other}"]})
        told = [
            name for name in alone if f"featureGates.{name}: only Kubernetes {version} has it" in str(refused.value)
        ]
        assert told == [*alone]


@pytest.mark.parametrize("monitor", ["serviceMonitor", "podMonitor"])
@pytest.mark.parametrize(
    ("given", "verifies"),
    [({}, False), ({"ca.secret.name": "ca"}, True), ({"caFile": "/ca.crt"}, True), ({"serverName": "k"}, True)],
    ids=["default", "ca", "ca-file", "server-name"],
)
def test_an_authority_for_prometheus_is_not_undone_by_the_default(
    monitor: str, given: dict[str, str], verifies: bool
) -> None:
    """Helm merges `tlsConfig` with the default, which skips the verification: both together would verify nothing."""
    settings = {f"metrics.{monitor}.enabled": True} | {f"metrics.{monitor}.tlsConfig.{k}": v for k, v in given.items()}
    (found,) = (one for one in helm.objects(helm.render(settings=settings)) if one["kind"].lower() == monitor.lower())
    endpoints = found["spec"].get("endpoints") or found["spec"]["podMetricsEndpoints"]
    assert ("insecureSkipVerify" not in endpoints[0]["tlsConfig"]) is verifies
