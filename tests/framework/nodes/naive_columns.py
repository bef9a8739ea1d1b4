"""A NodeTable as it should be: every column computed from the objects, node by node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kscheduler.api.core import Node
from kscheduler.api.quantity import MAX_INT64
from kscheduler.api.selectors import Operator, Requirement
from kscheduler.framework.nodes.node_info import allocatable_amounts
from kscheduler.framework.nodes.node_table import NodeTable, stable_hash
from kscheduler.framework.pods.pod_info import ALL_INTERFACES, PodInfo

LABEL_KEYS = ("zone", "disk", "absent")
LABEL_VALUES = ("a", "b", "7", "")
REQUIREMENTS = tuple(
    Requirement(key, operator, frozenset(values), bound)
    for key in LABEL_KEYS
    for operator, values, bound in (
        (Operator.IN, ("a", ""), 0),
        (Operator.NOT_IN, ("a",), 0),
        (Operator.EXISTS, (), 0),
        (Operator.DOES_NOT_EXIST, (), 0),
        (Operator.GT, ("5",), 5),
    )
)
IMAGES = ("big:v1", "small:latest")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi")
WANTED_PORTS = (("TCP", 80, ALL_INTERFACES), ("TCP", 80, "10.0.0.1"), ("UDP", 80, "10.0.0.2"))


@dataclass
class Place:
    """A node and the pods on it, by UID."""

    node: Node
    pods: dict[str, PodInfo] = field(default_factory=dict)

    def requested(self, resource: str) -> int:
        """The sum of what its pods take, saturated."""
        return min(sum(pod.accounted.get(resource, 0) for pod in self.pods.values()), MAX_INT64)

    def is_taken(self, host_port: tuple[str, int, str]) -> bool:
        """Whether one of its pods has the port."""
        protocol, port, address = host_port
        return any(
            (protocol, port) == (its_protocol, its_port)
            and (address == its_address or ALL_INTERFACES in (address, its_address))
            for pod in self.pods.values()
            for its_protocol, its_port, its_address in pod.host_ports
        )


def check(table: NodeTable, places: Mapping[str, Place]) -> None:
    """Assert that the table shows exactly these nodes and pods."""
    rows = table.rows()
    names = [table.name_of(row) for row in rows.tolist()]
    assert sorted(names) == sorted(places)
    assert len(table) == len(places)
    assert rows.tolist() == sorted(rows.tolist())
    at = [places[name] for name in names]
    _check_names(table, names)
    _check_amounts(table, at)
    _check_node_columns(table, at)
    _check_labels(table, at)
    _check_sparse(table, places)


def _check_names(table: NodeTable, names: list[str]) -> None:
    rows = table.rows().tolist()
    assert [table.row_of(name) for name in names] == rows
    assert table.rows_of([*names, "no-such-node"]).tolist() == rows
    assert [table.names()[row] for row in rows] == names
    assert sum(bool(name) for name in table.names()) == len(names)
    assert table.name_hash[table.rows()].tolist() == [stable_hash(name) for name in names]
    assert table.tie_hash[table.rows()].tolist() == [number ^ number >> 30 for number in map(stable_hash, names)]
    assert table.row_of("no-such-node") == -1


def _check_amounts(table: NodeTable, at: list[Place]) -> None:
    rows = table.rows()
    for resource in RESOURCES:
        gives = [min(allocatable_amounts(place.node.status.allocatable).get(resource, 0), MAX_INT64) for place in at]
        assert table.amounts(table.allocatable, resource, rows).tolist() == gives, resource
        if resource not in table.resources:
            assert not any(gives), f"{resource} is offered, and has no column"
            continue
        taken = [place.requested(resource) for place in at]
        assert table.amounts(table.requested, resource, rows).tolist() == taken, resource
    for index in (0, 1):
        presumed = [sum(pod.nonzero_accounted[index] for pod in place.pods.values()) for place in at]
        assert table.nonzero_requested[index, rows].tolist() == [min(amount, MAX_INT64) for amount in presumed]
    assert table.pod_count[rows].tolist() == [len(place.pods) for place in at]
    allowed = [allocatable_amounts(place.node.status.allocatable).get("pods", 0) for place in at]
    assert table.allowed_pods[rows].tolist() == allowed


def _check_node_columns(table: NodeTable, at: list[Place]) -> None:
    rows = table.rows()
    assert table.unschedulable[rows].tolist() == [place.node.spec.unschedulable for place in at]
    assert [table.taint_sets[number] for number in table.taint_set[rows].tolist()] == [p.node.spec.taints for p in at]
    declared = [table.feature_sets[number] for number in table.feature_set[rows].tolist()]
    assert declared == [frozenset(place.node.status.declared_features) for place in at]


def _check_labels(table: NodeTable, at: list[Place]) -> None:
    rows = table.rows()
    for requirement in REQUIREMENTS:
        expected = [requirement.matches(place.node.metadata.labels) for place in at]
        assert table.matches(requirement, rows).tolist() == expected, requirement
    for key in LABEL_KEYS:
        ids, values = table.label_values(key, rows)
        assert [values[number] for number in ids.tolist()] == [place.node.metadata.labels.get(key) for place in at]


def _check_sparse(table: NodeTable, places: Mapping[str, Place]) -> None:
    for image in IMAGES:
        holders = {
            table.row_of(name)
            for name, place in places.items()
            if any(image in reported.names for reported in place.node.status.images)
        }
        state = table.images.get(image)
        assert set(state.array().tolist() if state else ()) == holders, image
        assert (state is None) is (not holders)
    for port in WANTED_PORTS:
        taken = {table.row_of(name) for name, place in places.items() if place.is_taken(port)}
        assert table.ports.conflicting_rows([port]) == taken, port
