"""Random histories of gangs, and what must be so at each rest: nobody waits who fits, and no gang is there in part.

Every pod takes one cpu, so whether a gang fits is the number of free cpus: the truth needs no scheduler. A gang is in
part only if something was taken from it: a member, a node with a member, a Binding that was refused, or its minimum
was raised.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.groups import GangPolicy, KubernetesPodGroup, PodGroupPolicy
from kscheduler.api.kinds import NODES
from kscheduler.framework.status import error
from tests.builders import make_node, make_pod
from tests.effort import example_count
from tests.scheduling.groups.world import World, member, pod_group

NAMES = ("a", "b", "c", "d")
# 10 s times the square root of the largest gang.
LONGEST_BACKOFF_SECONDS = 30


@dataclass
class Gangs:
    """What a history has made, beside the world that it happens in."""

    random: Random
    world: World = field(default_factory=World)
    nodes: dict[str, int] = field(default_factory=dict)
    """Cpus."""
    groups: dict[str, KubernetesPodGroup] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    taken_from: set[str] = field(default_factory=set)
    made: int = 0

    # --- what happens -------------------------------------------------------------------------------------------------

    def node_comes(self) -> None:
        name = f"node-{self.made}"
        self.made += 1
        self.nodes[name] = self.random.randint(1, 4)
        self.world.add(make_node(name, cpu=str(self.nodes[name])))

    def node_goes(self) -> None:
        """With the pods on it, which their controllers do not make again."""
        if not self.nodes:
            return
        name = self.random.choice(sorted(self.nodes))
        del self.nodes[name]
        self.world.remove(NODES, name)
        self.pods_without_a_node_go()

    def pods_without_a_node_go(self) -> None:
        """Those too whose Binding was under way when the node went."""
        for pod in [pod for pod in self.world.pods() if pod.spec.node_name not in {"", *self.nodes}]:
            self._delete(pod.metadata.name)

    def group_comes(self) -> None:
        name = self.random.choice(NAMES)
        if name not in self.groups:
            self.groups[name] = pod_group(name, self.random.randint(1, 5))
            self.taken_from.add(name)  # members of an earlier group of its name may run
            self.world.add_group(self.groups[name])

    def group_goes(self) -> None:
        if self.groups:
            name = self.random.choice(sorted(self.groups))
            self.world.delete_group(self.groups.pop(name))

    def members_come(self) -> None:
        name = self.random.choice(NAMES)
        for _ in range(self.random.randint(1, 5)):
            number = self.sizes[name] = self.sizes.get(name, 0) + 1
            self.world.add(member(f"{name}-{number}", name, requests={"cpu": "1"}))

    def whole_gang_comes(self) -> None:
        name = self.random.choice(NAMES)
        if name not in self.groups and not self.sizes.get(name):
            size = self.random.randint(2, 6)
            self.groups[name] = pod_group(name, self.random.randint(1, size))
            self.world.add_group(self.groups[name])
            self.world.add(*(member(f"{name}-{n + 1}", name, requests={"cpu": "1"}) for n in range(size)))
            self.sizes[name] = size

    def single_comes(self) -> None:
        self.made += 1
        self.world.add(make_pod(f"single-{self.made}", requests={"cpu": "1"}))

    def pod_goes(self) -> None:
        if self.world.pods():
            self._delete(self.random.choice(sorted(pod.metadata.name for pod in self.world.pods())))

    def binding_is_refused(self) -> None:
        pods = sorted(pod.metadata.name for pod in self.world.pods() if not pod.spec.node_name)
        if pods:
            name = self.random.choice(pods)
            self.world.refused[name] = error("refused")
            self.taken_from.add(name.partition("-")[0])

    def bindings_are_taken(self) -> None:
        self.world.refused.clear()

    def minimum_changes(self) -> None:
        if self.groups:
            name = self.random.choice(sorted(self.groups))
            old = self.groups[name]
            policy = PodGroupPolicy(gang=GangPolicy(min_count=self.random.randint(1, 6)))
            self.groups[name] = replace(old, spec=replace(old.spec, scheduling_policy=policy))
            self.taken_from.add(name)
            self.world.add_group(self.groups[name])

    def _delete(self, name: str) -> None:
        self.taken_from.add(name.partition("-")[0])
        self.world.delete(name)

    # --- what must be so at rest --------------------------------------------------------------------------------------

    async def rests(self) -> None:
        self.bindings_are_taken()
        for _ in range(3):
            await self.world.pass_seconds(LONGEST_BACKOFF_SECONDS)
            await self.world.rest()
            self.pods_without_a_node_go()
        assert [*self.wrong()] == []

    def wrong(self) -> list[str]:
        bound = [pod for pod in self.world.pods() if pod.spec.node_name]
        on = {name: sum(pod.spec.node_name == name for pod in bound) for name in self.nodes}
        free = sum(self.nodes.values()) - len(bound)
        found = [f"{name} holds {on[name]} of {cpus}" for name, cpus in self.nodes.items() if on[name] > cpus]
        waiting = [pod.metadata.name for pod in self.world.pods() if not pod.spec.node_name]
        singles = [name for name in waiting if name.startswith("single")]
        if free and singles:
            found.append(f"{singles} wait, and {free} cpus are free")
        for name, group in self.groups.items():
            policy = group.spec.scheduling_policy.gang
            least = 1 if policy is None else policy.min_count
            there = sum(pod.metadata.name.startswith(f"{name}-") for pod in bound)
            out = sum(one.startswith(f"{name}-") for one in waiting)
            if out and there + out >= least and free >= max(1, least - there):
                found.append(f"{out} of gang {name} wait, {there} run, {least} are needed, and {free} cpus are free")
            if 0 < there < least and name not in self.taken_from:
                found.append(f"gang {name} is there in part: {there} of {least}")
        return found


HAPPENINGS = {
    "node comes": Gangs.node_comes,
    "node goes": Gangs.node_goes,
    "whole gang comes": Gangs.whole_gang_comes,
    "group comes": Gangs.group_comes,
    "group goes": Gangs.group_goes,
    "members come": Gangs.members_come,
    "single comes": Gangs.single_comes,
    "pod goes": Gangs.pod_goes,
    "binding is refused": Gangs.binding_is_refused,
    "bindings are taken": Gangs.bindings_are_taken,
    "minimum changes": Gangs.minimum_changes,
}
USUAL = ["node comes", "whole gang comes", "single comes"]
steps = st.tuples(st.sampled_from([*HAPPENINGS, *USUAL, *USUAL]), st.sampled_from(["at once", "a moment", "rest"]))


REFUSED_FOR_EVER = [
    *[("single comes", "a moment"), ("group goes", "rest"), ("whole gang comes", "a moment")],
    *[("binding is refused", "a moment"), ("node goes", "at once")],
]


@settings(max_examples=example_count(60), deadline=None)
@given(seed=st.integers(0, 10_000), history=st.lists(steps, min_size=4, max_size=25))
@example(seed=4510, history=REFUSED_FOR_EVER)
def test_nobody_waits_who_fits_and_no_gang_is_there_in_part(seed: int, history: list[tuple[str, str]]) -> None:
    asyncio.run(play(seed, history))


async def play(seed: int, history: list[tuple[str, str]]) -> None:
    gangs = Gangs(Random(seed))
    async with gangs.world.working():
        gangs.node_comes()
        for happening, then in history:
            HAPPENINGS[happening](gangs)
            if then == "a moment":
                await gangs.world.settle(gangs.random.randint(1, 8))
            elif then == "rest":
                await gangs.rests()
        await gangs.rests()
