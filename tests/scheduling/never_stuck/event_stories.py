"""Stories of events that let a parked pod through, told in the words of the never-stuck machine.

Each begins with a pod that one plugin rejects (and, where it cannot be otherwise, others too); then one thing
happens.
"""

from collections.abc import Iterator
from typing import Any, Final

from kscheduler.api.kinds import KINDS
from tests.scheduling.never_stuck import device_stories, words
from tests.scheduling.never_stuck.machine import NeverStuck
from tests.scheduling.never_stuck.story import OTHER, P, Step, Story, node, pod, turns


def node_goes(name: str) -> Step:
    return lambda state: state.node_goes(name=name)


def running(*traits: str, app: str = "", name: str = "o0", on: str = "n0", namespace: str = "default") -> Step:
    return lambda state: state.running_pod_comes(described=(name, namespace, app, [*traits], on))


def pod_goes(key: str) -> Step:
    return lambda state: state.pod_goes(key=key)


def changes(key: str, change: str) -> Step:
    return lambda state: state.pod_changes(key=key, change=change)


def stored(plural: str, name: str, what: str) -> Step:
    return lambda state: state.storage_is(what=(plural, name, what))


def unstored(plural: str, name: str) -> Step:
    return lambda state: state.storage_goes(what=(plural, name))


def altered(plural: str, name: str, **more: Any) -> Step:
    """A stored object changes under its UID."""
    kind = KINDS[plural]

    def step(state: NeverStuck) -> None:
        tree = state.server.get(kind, f"default/{name}" if kind.namespaced else name)
        assert tree is not None
        state.server.put(kind, words.merged(tree, more))

    return step


def namespace(name: str, team: str) -> Step:
    return lambda state: state.namespace_is(name=name, team=team)


def volume(state: str, name: str = "v0") -> Step:
    return stored("persistentvolumes", name, state)


def claim(state: str, name: str = "c0") -> Step:
    return stored("persistentvolumeclaims", name, state)


LOCAL = stored("storageclasses", "local", "as always")
DYNAMIC = stored("storageclasses", "dynamic", "any zone")
LIMIT_1 = stored("csinodes", "n0", "limit 1")
REPORTS = stored("csidrivers", words.DRIVER, "tells capacity")
# One volume may be attached, and p0's is not yet.
ATTACHED = (node("n0"), LOCAL, LIMIT_1, volume("everywhere"), claim("bound to v0"))
FULL = (*ATTACHED, volume("everywhere", "v1"), claim("bound to v1", "c1"), running("claim c1"), pod("claim c0"))
TEAM = "near web of team x"
# Of a claim's spec.
BOUND: Final = {"volumeName": "v0"}


def _stories() -> Iterator[Story]:
    yield Story(
        "SchedulingGates",
        "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        (node("n0"), pod("gated")),
        changes(P, "one gate less"),
        is_gated=True,
    )
    for plugin, trait in (("NodeUnschedulable", "cordoned"), ("TaintToleration", "tainted")):
        closed = (node("n0", trait), pod("cpu 1"))
        yield Story(plugin, "NodeAdd", closed, node("n1"))
        yield Story(plugin, "NodeUpdateNodeTaint", closed, turns("n0", trait))
        yield Story(plugin, "UnschedulablePodUpdatePodToleration", closed, changes(P, "tolerates all"))
    yield Story("NodeAffinity", "NodeAdd", (node("n0"), pod("pool x")), node("n1", "pool x"))
    yield Story("NodeAffinity", "NodeUpdateNodeLabel", (node("n0"), pod("pool x")), turns("n0", "pool x"))
    taken = (node("n0"), running("port 80"), pod("port 80"))
    yield Story("NodePorts", "AssignedPodDelete", taken, pod_goes(OTHER))
    yield Story("NodePorts", "NodeAdd", taken, node("n1"))
    yield Story("NodeDeclaredFeatures", "NodeAdd", (node("n0"), pod("restarts")), node("n1", "restarts"))
    featureless = (node("n0"), pod("restarts"))
    yield Story("NodeDeclaredFeatures", "NodeUpdateNodeDeclaredFeature", featureless, turns("n0", "restarts"))
    yield from _stories_of_room()
    yield from _stories_of_domains()
    yield from _stories_of_affinity()
    yield from _stories_of_disks()
    yield from _stories_of_limits()
    yield from _stories_of_binding()
    yield from _stories_of_zones()
    yield from device_stories.stories()


def _stories_of_room() -> Iterator[Story]:
    plugin, full = "NodeResourcesFit", (node("n0"), running("cpu 2"), pod("cpu 1"))
    yield Story(plugin, "AssignedPodDelete", full, pod_goes(OTHER))
    yield Story(plugin, "AssignedPodUpdatePodScaleDown", full, changes(OTHER, "smaller"))
    half = (node("n0"), running("cpu 1"), pod("cpu 2"))
    yield Story(plugin, "UnschedulablePodUpdatePodScaleDown", half, changes(P, "smaller"))
    yield Story(plugin, "NodeAdd", full, node("n1"))
    yield Story(plugin, "NodeUpdateNodeAllocatable", full, turns("n0", "big"))


def _stories_of_domains() -> Iterator[Story]:
    plugin = "PodTopologySpread"
    alone = (node("n0", "zone a"), running(app="web"), pod("spread over 2 zones", app="web"))
    yield Story(plugin, "AssignedPodDelete", alone, pod_goes(OTHER))
    yield Story(plugin, "AssignedPodUpdatePodLabel", alone, changes(OTHER, "app db"))
    yield Story(plugin, "AssignedPodUpdate", alone, changes(OTHER, "terminating"))
    yield Story(plugin, "UnschedulablePodUpdatePodLabel", alone, changes(P, "app db"))
    yield Story(plugin, "NodeAdd", alone, node("n1", "zone b"))
    lop_sided = (
        node("n0", "zone a"),
        node("n1", "zone b", "tainted"),
        running(app="web"),
        pod("spread over zones", app="web"),
    )
    tainted = frozenset(("TaintToleration",))
    yield Story(plugin, "AssignedPodAdd", lop_sided, running("cpu 1", app="web", name="o1", on="n1"), tainted)
    yield Story(plugin, "NodeDelete", lop_sided, node_goes("n1"), tainted)
    yield Story(plugin, "NodeUpdateNodeLabel", lop_sided, turns("n1", "zone a"), tainted)
    honoured = (
        node("n0", "zone a"),
        node("n1", "zone b", "cordoned"),
        running(app="web"),
        pod("spread, taints honoured", app="web"),
    )
    cordoned = frozenset(("NodeUnschedulable",))
    yield Story(plugin, "NodeUpdateNodeTaint", honoured, turns("n1", "tainted"), cordoned)


def _stories_of_affinity() -> Iterator[Story]:
    plugin = "InterPodAffinity"
    yield Story(plugin, "AssignedPodAdd", (node("n0", "zone a"), pod("near web in zone")), running(app="web"))
    kept_away = (node("n0", "zone a"), running(app="web"), pod("away from web in zone"))
    yield Story(plugin, "AssignedPodDelete", kept_away, pod_goes(OTHER))
    yield Story(plugin, "AssignedPodUpdatePodLabel", kept_away, changes(OTHER, "app db"))
    yield Story(plugin, "NodeAdd", kept_away, node("n1", "zone b"))
    yield Story(plugin, "NodeUpdateNodeLabel", (*kept_away, node("n2", "zone a")), turns("n2", "zone b"))
    averse = (node("n0"), running("away from web on host"), pod(app="web"))
    yield Story(plugin, "UnschedulablePodUpdatePodLabel", averse, changes(P, "app db"))
    tainted = frozenset(("TaintToleration",))
    shut = (node("n0", "zone a", "tainted"), node("n1", "zone a"), running(app="web"), pod("away from web in zone"))
    yield Story(plugin, "NodeDelete", shut, node_goes("n0"), tainted)
    apart = (node("n0", "zone a"), running(app="web", namespace="blue"), pod(TEAM))
    yield Story(plugin, "NamespaceAdd", apart, namespace("blue", "x"))
    yield Story(plugin, "NamespaceUpdate", (namespace("blue", ""), *apart), namespace("blue", "x"))
    at_odds = (
        namespace("blue", "x"),
        node("n0", "zone a"),
        running(app="web", namespace="blue"),
        pod("away from web of team x"),
    )
    yield Story(plugin, "NamespaceDelete", at_odds, lambda state: state.namespace_goes(name="blue"))


def _stories_of_disks() -> Iterator[Story]:
    plugin, taken = "VolumeRestrictions", (node("n0"), running("disk"), pod("disk"))
    yield Story(plugin, "AssignedPodDelete", taken, pod_goes(OTHER))
    yield Story(plugin, "NodeAdd", taken, node("n1"))
    exclusive = (node("n0"), node("n1"), LOCAL, volume("everywhere"), claim("exclusively v0"))
    in_use = (*exclusive, running("claim c0"), pod("claim c0"))
    yield Story(plugin, "NodeDelete", in_use, node_goes("n0"))
    yield Story(plugin, "PersistentVolumeClaimAdd", in_use, claim("bound to v0"))


def _stories_of_limits() -> Iterator[Story]:
    plugin = "NodeVolumeLimits"
    yield Story(plugin, "AssignedPodAdd", FULL, running("claim c0", name="o1"))
    yield Story(plugin, "AssignedPodDelete", FULL, pod_goes(OTHER))
    yield Story(plugin, "NodeAdd", FULL, node("n1"))
    yield Story(plugin, "storage.k8s.io/CSINodeUpdate", FULL, stored("csinodes", "n0", "no limit"))
    yield Story(plugin, "storage.k8s.io/CSINodeDelete", FULL, unstored("csinodes", "n0"))
    yield Story(plugin, "PersistentVolumeClaimDelete", FULL, unstored("persistentvolumeclaims", "c1"))
    yield Story(plugin, "PersistentVolumeDelete", FULL, unstored("persistentvolumes", "v1"))
    planned = (*ATTACHED, DYNAMIC, claim("dynamic", "c1"), running("claim c1"), pod("claim c0"))
    yield Story(plugin, "storage.k8s.io/StorageClassDelete", planned, unstored("storageclasses", "dynamic"))
    elsewhere = altered("persistentvolumeclaims", "c1", spec={"volumeName": "v1"})
    yield Story(plugin, "PersistentVolumeClaimUpdate", (*planned, volume("ebs", "v1")), elsewhere)
    attached = (*ATTACHED, volume("everywhere", "v1"), claim("bound to v1"), pod("claim c0"))
    left_over = stored("volumeattachments", "a0", "v0 on n0")
    yield Story(
        plugin,
        "storage.k8s.io/VolumeAttachmentDelete",
        (*attached, left_over),
        unstored("volumeattachments", "a0"),
    )


def _stories_of_binding() -> Iterator[Story]:
    plugin = "VolumeBinding"
    wanted = (node("n0", "zone a"), LOCAL, claim("local"), pod("claim c0"))
    yield Story(plugin, "PersistentVolumeAdd", wanted, volume("everywhere"))
    promised = altered("persistentvolumes", "v0", spec={"claimRef": {"namespace": "default", "name": "c0"}})
    other = altered("persistentvolumes", "v0", spec={"claimRef": {"namespace": "default", "name": "c1"}})
    yield Story(plugin, "PersistentVolumeUpdate", (volume("everywhere"), other, *wanted), promised)
    at_once = (node("n0"), stored("storageclasses", "at-once", "as always"), claim("at once"), pod("claim c0"))
    bound = altered(
        "persistentvolumeclaims",
        "c0",
        spec=BOUND,
        metadata={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    )
    yield Story(plugin, "PersistentVolumeClaimUpdate", (*at_once, volume("everywhere")), bound)
    bound_in_a = (node("n1", "zone b"), LOCAL, volume("reached from a"), claim("bound to v0"), pod("claim c0"))
    yield Story(plugin, "NodeAdd", bound_in_a, node("n0", "zone a"))
    yield Story(plugin, "NodeUpdateNodeLabel", bound_in_a, turns("n1", "zone a"))
    untold = (node("n0", "zone a"), DYNAMIC, REPORTS, claim("dynamic"), pod("claim c0"))
    room = stored("csistoragecapacities", "in-a", "5Gi")
    none = stored("csistoragecapacities", "in-a", "nothing")
    yield Story(plugin, "storage.k8s.io/CSIStorageCapacityAdd", untold, room)
    yield Story(plugin, "storage.k8s.io/CSIStorageCapacityUpdate", (none, *untold), room)
    yield Story(plugin, "storage.k8s.io/CSIDriverUpdate", untold, stored("csidrivers", words.DRIVER, "silent"))
    yield Story(plugin, "storage.k8s.io/CSIDriverDelete", untold, unstored("csidrivers", words.DRIVER))
    yield Story(plugin, "storage.k8s.io/StorageClassAdd", (node("n0"), claim("dynamic"), pod("claim c0")), DYNAMIC)
    only_a = (
        node("n1", "zone b"),
        stored("storageclasses", "dynamic", "zone a"),
        claim("dynamic"),
        pod("claim c0"),
    )
    b_too = altered(
        "storageclasses",
        "dynamic",
        allowedTopologies=[{"matchLabelExpressions": [{"key": words.ZONE, "values": ["b"]}]}],
    )
    yield Story(plugin, "storage.k8s.io/StorageClassUpdate", only_a, b_too)
    ephemeral = (node("n0"), DYNAMIC, pod("ephemeral"))
    yield Story(plugin, "PersistentVolumeClaimAdd", ephemeral, lambda state: state.ephemeral_claim_comes(key=P))
    yield from _stories_of_migration()


def _stories_of_migration() -> Iterator[Story]:
    """A disk of zone a. Where its plugin is migrated, another label of the node tells its zone."""
    plugin, migrated = "VolumeBinding", stored("csinodes", "n0", "migrated")
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": words.ZONE, "operator": "In", "values": ["a"]}]}]}
    in_a = altered("persistentvolumes", "v0", spec={"nodeAffinity": {"required": required}})
    disk = (LOCAL, volume("ebs"), in_a, claim("bound to v0"), pod("claim c0"))
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ""}
    no_longer = altered("csinodes", "n0", metadata={"annotations": annotations})
    yield Story(plugin, "storage.k8s.io/CSINodeUpdate", (node("n0", "zone a"), migrated, *disk), no_longer)
    gone = unstored("csinodes", "n0")
    yield Story(plugin, "storage.k8s.io/CSINodeDelete", (node("n0", "zone a"), migrated, *disk), gone)
    reported_otherwise = altered(
        "nodes", "n0", metadata={"labels": {words.ZONE: "b", f"topology.{words.EBS}/zone": "a"}}
    )
    says_b = altered("persistentvolumes", "v0", metadata={"labels": {words.ZONE: "b"}})
    in_b = (node("n0"), reported_otherwise, *disk, says_b)
    yield Story(plugin, "storage.k8s.io/CSINodeAdd", in_b, migrated)


def _stories_of_zones() -> Iterator[Story]:
    plugin = "VolumeZone"
    in_a = (node("n1", "zone b"), LOCAL, volume("labelled a"), claim("bound to v0"), pod("claim c0"))
    yield Story(plugin, "NodeAdd", in_a, node("n0", "zone a"))
    yield Story(plugin, "NodeUpdateNodeLabel", in_a, turns("n1", "zone a"))
    moved = altered("persistentvolumes", "v0", metadata={"labels": {words.ZONE: "b"}})
    yield Story(plugin, "PersistentVolumeUpdate", in_a, moved)
    missing = (node("n1", "zone b"), LOCAL, claim("bound to v0"), pod("claim c0"))
    yield Story(plugin, "PersistentVolumeAdd", missing, volume("labelled b"))


STORIES: Final = tuple(_stories())
