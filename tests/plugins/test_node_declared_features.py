"""NodeDeclaredFeatures: pods that need a feature go where the kubelet has it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import QueueingHint, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.informers.transform import PodTransform
from kscheduler.plugins.node_declared_features import NodeDeclaredFeatures, required_features
from kscheduler.state.cache import Cache
from tests.config.test_expansion import WITHOUT_DECLARED_FEATURES
from tests.plugins.made import HANDLE, info, node, pod

RESTARTS_ALL: dict[str, Any] = {
    "containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]
}
INIT_RESTARTS_ALL: dict[str, Any] = {
    "initContainers": [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]
}
OWN_USERS: dict[str, Any] = {"hostNetwork": True, "hostUsers": False}
RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def declaring(name: str, *features: str) -> Node:
    tree = {"metadata": {"name": name}, "status": {"allocatable": {"pods": "1"}, "declaredFeatures": list(features)}}
    return convert(tree, Node)


def codes(cache: Cache, judged: PodInfo) -> list[int]:
    """One per node; as many zeros where the filter is skipped or passes all."""
    plugin, state, rows = NodeDeclaredFeatures(None, HANDLE), CycleState(), cache.nodes.rows()
    if plugin.pre_filter(state, judged, cache.nodes).status.is_skip:
        return [0] * len(rows)
    found = plugin.filter(state, judged, cache.nodes, rows)
    return [0] * len(rows) if found is None else list(found.tolist())


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, set()),
        (RESTARTS_ALL, {RESTART}),
        (INIT_RESTARTS_ALL, {RESTART}),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, set()),
        (OWN_USERS, {USERS}),
        ({"hostNetwork": True}, set()),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostUsers": False}, set()),
        ({**OWN_USERS, **RESTARTS_ALL}, {RESTART, USERS}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),  # alike in each process of a run
)
def test_which_features_a_pod_needs(spec: dict[str, Any], features: set[str]) -> None:
    for behaviours in BEHAVIOURS.values():
        assert required_features(pod(**spec), behaviours) == features


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_options_of_bind_mounts_need_a_feature_from_1_37_on(kind: str) -> None:
    mounts: list[dict[str, Any]] = [
        {"name": "v", "mountPath": "/v"},
        {"name": "w", "mountPath": "/w", "bindMountOptions": ["noexec"]},
    ]
    spec: dict[str, Any] = {kind: [{"name": "c", "volumeMounts": mounts}]}
    without: dict[str, Any] = {kind: [{"name": "c", "volumeMounts": [{**mounts[1], "bindMountOptions": []}]}]}
    one, none = pod(**spec), pod(**without)
    assert required_features(one, BEHAVIOURS["1.37"]) == {"VolumeBindMountOptions"}
    assert required_features(one, BEHAVIOURS["1.36"]) == set()
    assert required_features(none, BEHAVIOURS["1.37"]) == set()


def projected(*key_types: str) -> dict[str, Any]:
    sources = [{"serviceAccountToken": {"path": "t"}}, *({"podCertificate": {"keyType": one}} for one in key_types)]
    return {"volumes": [{"name": "v", "projected": {"sources": sources}}]}


OCI = {"securityContext": {"seccompProfile": {"type": "OCI"}}}


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        (projected("MLDSA44"), {"PodCertificateMLDSA"}),
        (projected("ED25519", "MLDSA65"), {"PodCertificateMLDSA"}),
        (projected("MLDSA87"), {"PodCertificateMLDSA"}),
        (projected("ED25519", "MLDSA88"), set()),
        (projected(), set()),
        (OCI, {"SecurityProfileOCI"}),
        ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, set()),
        ({"securityContext": {}}, set()),
        ({"containers": [{"name": "c"}, {"name": "d", **OCI}]}, {"SecurityProfileOCI"}),
        ({"initContainers": [{"name": "i", **OCI}]}, {"SecurityProfileOCI"}),
        ({"ephemeralContainers": [{"name": "e", **OCI}]}, {"SecurityProfileOCI"}),
        ({**projected("MLDSA44"), **OCI}, {"PodCertificateMLDSA", "SecurityProfileOCI"}),
    ],
)
def test_from_1_38_keys_of_ml_dsa_and_profiles_from_images_need_a_feature(
    spec: dict[str, Any], features: set[str]
) -> None:
    """(1.38: D12) Also of pods as they are stored, without what constrains no placement."""
    stored = pod(**spec)
    PodTransform()(stored)
    for one in (pod(**spec), stored):
        assert required_features(one, BEHAVIOURS["1.37"]) == set()
        assert required_features(one, BEHAVIOURS["1.38"]) == features


def test_only_nodes_that_declare_every_feature_will_do() -> None:
    cache = Cache()
    for one in (
        declaring("none"),
        declaring("restart", RESTART),
        declaring("both", USERS, "Other", RESTART),
        declaring("other", "Other"),
    ):
        cache.add_node(one)
    assert codes(cache, info()) == [0, 0, 0, 0]
    assert codes(cache, info(**RESTARTS_ALL)) == [-1, 0, 0, -1]
    assert codes(cache, info(**OWN_USERS, **RESTARTS_ALL)) == [-1, -1, 0, -1]


some_features = st.lists(st.sampled_from([RESTART, USERS, "Other"]), max_size=3)
specs = st.sampled_from([{}, RESTARTS_ALL, INIT_RESTARTS_ALL, OWN_USERS, {**OWN_USERS, **RESTARTS_ALL}])


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), some_features), min_size=1, max_size=8), specs)
def test_whatever_nodes_have_declared_before_what_they_declare_now_counts(
    history: list[tuple[str, list[str]]], spec: dict[str, Any]
) -> None:
    cache, now = Cache(), {}
    for name, features in history:
        cache.add_node(declaring(name, *features))
        now[name] = set(features)
    judged = info(**spec)
    names = [cache.nodes.name_of(row) for row in cache.nodes.rows().tolist()]
    wanted = {RESTART} if "RestartAll" in str(spec) else set()
    wanted |= {USERS} if "hostUsers" in spec else set()
    assert codes(cache, judged) == [0 if wanted <= now[name] else -1 for name in names]


def test_the_reason_is_kube_schedulers_and_preemption_cannot_help() -> None:
    status = NodeDeclaredFeatures(None, HANDLE).status(CycleState(), -1)
    assert status.reasons == ("node(s) didn't match Pod's required features",)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_node_that_declares_a_feature_later_is_seen() -> None:
    cache = Cache()
    cache.add_node(declaring("a"))
    assert codes(cache, info(**OWN_USERS)) == [-1]
    cache.update_node(declaring("a", USERS))
    assert codes(cache, info(**OWN_USERS)) == [0]


def test_the_features_are_all_that_is_signed() -> None:
    plugin = NodeDeclaredFeatures(None, HANDLE)
    assert plugin.sign(info("one", **OWN_USERS)) == plugin.sign(info("other", nodeSelector={"a": "b"}, **OWN_USERS))
    assert plugin.sign(info()) != plugin.sign(info(**OWN_USERS))


def hint_of(event: str, judged: PodInfo, old: Node | Pod | None, new: Node | Pod) -> QueueingHint:
    """What the hint of the node or pod event says."""
    registered = NodeDeclaredFeatures(None, HANDLE).events_to_register()
    (hint,) = [one.hint for one in registered if one.event.resource == Resource(event)]
    assert hint is not None
    return hint(judged, old, new)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, declaring("a"), QueueingHint.QUEUE),
        (declaring("a"), declaring("a", USERS), QueueingHint.QUEUE),
        (declaring("a", USERS), node("a"), QueueingHint.QUEUE),
        (declaring("a", USERS), declaring("a", USERS), QueueingHint.SKIP),
    ],
    ids=["new", "declares more", "declares less", "the same"],
)
def test_a_node_wakes_pods_when_it_is_new_or_declares_something_else(
    old: Node | None, new: Node, expected: QueueingHint
) -> None:
    assert hint_of("Node", info(**OWN_USERS), old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pod(**OWN_USERS), pod(), QueueingHint.QUEUE),
        (pod(**OWN_USERS), pod(nodeSelector={"a": "b"}, **OWN_USERS), QueueingHint.SKIP),
        (pod("other", **OWN_USERS), pod("other"), QueueingHint.SKIP),
    ],
    ids=["needs less", "needs the same", "another pod"],
)
def test_a_pod_wakes_when_it_needs_something_else(old: Pod, new: Pod, expected: QueueingHint) -> None:
    assert hint_of("Pod", info(**OWN_USERS), old, new) is expected


def test_the_gate_decides_whether_it_is_a_default_plugin_and_setting_it_does_not_warn() -> None:
    gates = parse_feature_gates(WITHOUT_DECLARED_FEATURES)
    off = default_configuration(gates=gates).configuration.profiles[0].plugins.multi_point.enabled
    assert "NodeDeclaredFeatures" not in {plugin.name for plugin in off}
    on = default_configuration().configuration.profiles[0].plugins.multi_point.enabled
    assert "NodeDeclaredFeatures" in {plugin.name for plugin in on}
    assert not any("NodeDeclaredFeatures=" in warning for warning in gates.warnings)
