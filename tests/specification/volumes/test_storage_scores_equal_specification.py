"""VolumeBinding's points by free capacity (the gate StorageCapacityScoring) in columns equal the specification.

Worlds where drivers tell their capacity and pods have several claims, which random storage seldom is; cases by hand.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kscheduler.config.plugin_args import UtilizationShapePoint, VolumeBindingArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.storage.volume_binding import VolumeBinding
from tests.builders import Tree, make_node, make_pod
from tests.specification import cases
from tests.specification.volumes import binding_rules as volume_binding_rules
from tests.specification.volumes.state import StorageCluster

Shape = list[tuple[int, int]]
DEFAULT: Shape = [(0, 10), (100, 0)]
PACKING: Shape = [(0, 0), (100, 10)]
SHAPES = [DEFAULT, PACKING, [(10, 7), (33, 2), (70, 9)], [(50, 5)], [(0, 3), (1, 9)]]
NODES = ["n0", "n1", "n2", "n3"]
CLASSES = ["fast", "slow", "silent"]
SIZES = ["1", "333", "1Gi", "3Gi", "4Gi", "10Gi", "100Gi", "60Pi", str(2**62), str(2**63 - 1)]


def driver(name: str, *, reports: bool = True) -> CSIDriver:
    return convert({"metadata": {"name": name}, "spec": {"storageCapacity": reports}}, CSIDriver)


def storage_class(name: str) -> StorageClass:
    tree = {"metadata": {"name": name}, "provisioner": name, "volumeBindingMode": "WaitForFirstConsumer"}
    return convert(tree, StorageClass)


def capacity(name: str, of: str, size: str | None, zone: str, largest: str | None = None) -> CSIStorageCapacity:
    tree = {
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": of,
        "nodeTopology": {"matchLabels": {"zone": zone} if zone else {}},
        "capacity": size,
        "maximumVolumeSize": largest,
    }
    return convert(tree, CSIStorageCapacity)


def claim(name: str, of: str, size: str, node: str = "") -> PersistentVolumeClaim:
    notes = {"volume.kubernetes.io/selected-node": node} if node else {}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": notes}
    spec = {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return convert({"metadata": metadata, "spec": spec}, PersistentVolumeClaim)


def volume(name: str, of: str, size: str, zone: str) -> PersistentVolume:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    spec: Tree = {
        "storageClassName": of,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}} if zone else None,
        "csi": {"driver": of, "volumeHandle": name},
    }
    return convert({"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}, PersistentVolume)


def pod(*claims: str) -> Pod:
    return make_pod(
        volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims],
    )


def started() -> StorageCluster:
    """Four nodes in two zones, and three classes, of which one's driver does not tell its capacity."""
    cluster = StorageCluster()
    for number, name in enumerate(NODES):
        cluster.put(make_node(name, labels={"zone": "ab"[number % 2], "host": name}))
    for name in CLASSES:
        cluster.put(storage_class(name))
        cluster.put(driver(name, reports=name != "silent"))
    return cluster


def points(cluster: StorageCluster, judged: Pod, shape: Shape) -> dict[str, int]:
    """What the columns give, of the nodes that pass."""
    args = VolumeBindingArgs(shape=tuple(UtilizationShapePoint(*corner) for corner in shape))
    plugin, state, info = VolumeBinding(args, cluster.handle), CycleState(), PodInfo(judged)
    table = cluster.cache.nodes
    assert plugin.pre_filter(state, info, table).status.is_success
    rows = table.rows()
    # In two passes, as a search does that is cut into pieces.
    for part in (rows[:2], rows[2:]):
        codes = plugin.filter(state, info, table, part)
        rows = rows if codes is None else rows[~_among(rows, part[codes != 0])]
    assert plugin.pre_score(state, info, table, rows).is_success
    given_points = plugin.score(state, info, table, rows)
    return dict(zip(map(table.name_of, rows.tolist()), given_points.tolist(), strict=True))


def _among(rows: Any, some: Any) -> Any:
    return (rows[:, None] == some[None, :]).any(axis=1)


def draw_world(draws: Random) -> tuple[StorageCluster, Pod]:
    cluster = started()
    for number in range(draws.randrange(9)):
        zone, largest = draws.choice(["a", "b", ""]), draws.choice([None, None, *SIZES])
        size = draws.choice([None, *SIZES, *SIZES])
        cluster.put(capacity(f"capacity-{number}", draws.choice(CLASSES), size, zone, largest))
    for number in range(draws.randrange(5)):
        of, size, zone = draws.choice(CLASSES), draws.choice(SIZES), draws.choice(["a", "b", ""])
        cluster.put(volume(f"volume-{number}", of, size, zone))
    names = [f"claim-{number}" for number in range(draws.randrange(1, 5))]
    for name in names:
        selected = draws.choice(["", "", "", "", "n0"])
        cluster.put(claim(name, draws.choice(CLASSES), draws.choice(SIZES[:-2]), selected))
    return cluster, pod(*names)


@cases.examples("volumes")
@given(st.integers(0, 2**64), st.sampled_from(SHAPES))
def test_points_where_drivers_report_and_claims_are_many(seed: int, shape: Shape) -> None:
    cluster, judged = draw_world(Random(seed))
    world = cluster.world
    fitting = {
        name: node for name, node in world.nodes.items() if volume_binding_rules.binding(judged, node, world) is None
    }
    expected = {
        name: volume_binding_rules.capacity_points(judged, node, world, shape) for name, node in fitting.items()
    }
    assert points(cluster, judged, shape) == expected
    cases.judged("volumes")


@pytest.mark.parametrize(
    ("reported", "claims", "expected"),
    [
        ({"n0": "100Gi", "n1": "50Gi"}, {"c": ("fast", "50Gi")}, {"n0": 50, "n1": 0}),
        ({"n0": "100Gi", "n1": "50Gi"}, {"c": ("silent", "50Gi")}, {"n0": 0, "n1": 0, "n2": 0, "n3": 0}),
        # Two claims share what is told once: 60 of 100, and more than there is counts as full.
        ({"n0": "100Gi", "n1": "40Gi"}, {"c": ("fast", "30Gi"), "d": ("fast", "30Gi")}, {"n0": 40, "n1": 0}),
    ],
    ids=["by what is left", "a driver that does not tell", "two claims"],
)
def test_emptier_storage_is_preferred_by_default(
    reported: dict[str, str], claims: dict[str, tuple[str, str]], expected: dict[str, int]
) -> None:
    cluster = started()
    for node, size in reported.items():
        one = capacity(node, "fast", size, "")
        one.node_topology = convert({"matchLabels": {"host": node}}, type(one.node_topology))
        cluster.put(one)
    for name, (of, size) in claims.items():
        cluster.put(claim(name, of, size))
    assert points(cluster, pod(*claims), DEFAULT) == expected


def test_volumes_that_exist_decide_alone_where_one_of_them_is_bound() -> None:
    """In zone a the small claim gets a volume of ten times its size: 10 percent. What is to be made does not count."""
    cluster = started()
    cluster.put(volume("v", "slow", "10Gi", "a"))
    cluster.put(capacity("c", "fast", "4Gi", ""))
    cluster.put(capacity("d", "slow", "4Gi", ""))
    cluster.put(claim("one", "slow", "1Gi"))
    cluster.put(claim("two", "fast", "3Gi"))
    assert points(cluster, pod("one", "two"), PACKING) == {"n0": 10, "n1": 50, "n2": 10, "n3": 50}


def test_without_a_shape_nothing_is_scored() -> None:
    cluster = started()
    cluster.put(claim("one", "silent", "1Gi"))
    plugin, state, info = VolumeBinding(None, cluster.handle), CycleState(), PodInfo(pod("one"))
    rows = cluster.cache.nodes.rows()
    assert plugin.pre_filter(state, info, cluster.cache.nodes).status.is_success
    assert plugin.pre_score(state, info, cluster.cache.nodes, rows).is_skip


def test_classes_count_the_same_and_halves_are_rounded_up() -> None:
    """A quarter and a half of the volumes in zone a make 37.5; half and all of them in zone b make 75."""
    cluster = started()
    for zone, size in (("a", "200Gi"), ("b", "100Gi")):
        for of in ("fast", "slow"):
            cluster.put(volume(f"{of}-{zone}", of, size, zone))
    cluster.put(claim("one", "fast", "50Gi"))
    cluster.put(claim("two", "slow", "100Gi"))
    assert points(cluster, pod("one", "two"), PACKING) == {"n0": 38, "n1": 75, "n2": 38, "n3": 75}
