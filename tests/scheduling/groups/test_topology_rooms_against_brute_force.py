"""The room that a group is thought to have on a node, against brute force: never less than the members that fit."""

import asyncio
from itertools import combinations
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kscheduler.framework.cluster.topology_request import REQUIRED
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.scheduling.groups import topology_search
from kscheduler.scheduling.groups.group_cycle import GroupInputs
from kscheduler.scheduling.groups.member_rooms import rooms_for_members
from tests.builders import make_node, make_pod
from tests.effort import example_count
from tests.scheduling.groups.test_topology_requests import RACK, asking
from tests.scheduling.groups.world import World, member, pod_group

HOST: Final = "kubernetes.io/hostname"


class Kind(msgspec.Struct, frozen=True):
    """What matters of a pod."""

    cpu: int = 0
    ports: tuple[int, ...] = ()
    label: str = "a"
    avoids: str = ""
    """It must be on no node with a pod of this label; empty: it may be anywhere."""

    def may_be_beside(self, other: "Kind", *, is_labelled: bool) -> bool:
        if set(self.ports) & set(other.ports):
            return False
        return not is_labelled or (self.avoids != other.label and other.avoids != self.label)

    def fields(self) -> dict[str, Any]:
        ports = [{"hostPort": port} for port in self.ports]
        container = {"name": "main", "image": "app", "ports": ports, "resources": {"requests": {"cpu": str(self.cpu)}}}
        fields: dict[str, Any] = {"containers": [container]}
        if self.avoids:
            term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"kind": self.avoids}}}
            fields["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return fields


class Node(msgspec.Struct, frozen=True):
    """A node with its pods."""

    cpu: int
    pods: tuple[Kind, ...] = ()
    is_labelled: bool = True
    """Whether it has the label that anti-affinity is about."""


ports = st.sampled_from([(), (), (80,), (81,), (80, 81)])
kinds = st.builds(Kind, st.integers(0, 2), ports, st.sampled_from("ab"), st.sampled_from(("", "", "a", "b")))
nodes = st.builds(Node, st.integers(0, 6), st.lists(kinds, max_size=1).map(tuple), st.booleans())


def most_that_fit(node: Node, members: list[Kind]) -> int:
    """The most members that the node takes, whichever they are."""
    free = node.cpu - sum(pod.cpu for pod in node.pods)
    for count in range(len(members), 0, -1):
        for chosen in combinations(members, count):
            pairs = [*combinations(chosen, 2), *((pod, old) for pod in chosen for old in node.pods)]
            beside = all(one.may_be_beside(other, is_labelled=node.is_labelled) for one, other in pairs)
            if beside and (sum(pod.cpu for pod in chosen) <= free or not any(pod.cpu for pod in chosen)):
                return count
    return 0


async def rooms_of(world: World, cluster: list[Node], members: list[Kind], *, own_label: str) -> None:
    for number, node in enumerate(cluster):
        name = f"n{number}"
        labels = {RACK: "r0", HOST: name} if node.is_labelled else {RACK: "r0"}
        world.add(make_node(name, labels=labels, cpu=str(node.cpu)), initial=True)
        for place, pod in enumerate(node.pods):
            old = make_pod(f"old-{name}-{place}", node=name, labels={"kind": pod.label}, **pod.fields())
            world.add(old, initial=True)
    async with world.working():
        world.add_group(pod_group("g", len(members)))
        for number, pod in enumerate(members):
            labels = {"kind": pod.label, **({own_label: str(number)} if own_label else {})}
            world.add(asking(member(f"g-{number}", "g", labels=labels, **pod.fields()), **{REQUIRED: RACK}))
        await world.settle()


@given(st.lists(nodes, min_size=1, max_size=3), st.lists(kinds, min_size=1, max_size=5), st.sampled_from(("", "index")))
@example([Node(4)], [Kind(ports=(80,)), Kind(ports=(81,))], "")
@example([Node(4)], [Kind(label="a", avoids="a"), Kind(label="b", avoids="b")], "index")
@example([Node(4, (Kind(avoids="a"),))], [Kind(label="a"), Kind(label="b")], "")
@example([Node(4, is_labelled=False)], [Kind(avoids="a"), Kind(avoids="a")], "")
@settings(max_examples=example_count(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_node_is_thought_to_have_less_room_than_it_has(
    monkeypatch: pytest.MonkeyPatch, cluster: list[Node], members: list[Kind], own_label: str
) -> None:
    seen: list[dict[str, int]] = []

    def noted(inputs: GroupInputs, rows: Rows) -> NDArray[Any]:
        rooms = rooms_for_members(inputs, rows)
        names = inputs.cache.nodes.names(rows)
        seen.append(dict(zip(names, rooms.tolist(), strict=True)))
        return rooms

    monkeypatch.setattr(topology_search, "rooms_for_members", noted)
    asyncio.run(rooms_of(World(), cluster, members, own_label=own_label))
    first = seen[0]
    assert all(first[f"n{number}"] >= most_that_fit(node, members) for number, node in enumerate(cluster)), first
