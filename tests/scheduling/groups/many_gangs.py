"""Many gangs in a cluster with room for nine in ten: `python -m tests.scheduling.groups.many_gangs`.

The members of all gangs arrive mixed, so that a scheduler which places them one by one ends with parts of many gangs.
Prints, and returns, what is so at rest: partial gangs, gangs that wait although they would fit, and the cost.
"""

import asyncio
import random
import sys
import time
from dataclasses import dataclass

from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World, member, pod_group

SLOTS = 4


@dataclass(frozen=True)
class Rest:
    """What is so when everything has come to rest."""

    gangs: int
    placed: int
    partial: int
    free_slots: int
    size: int
    seconds: float
    bindings: int

    @property
    def waiting_though_it_would_fit(self) -> int:
        """How many more gangs there would be room for."""
        return min(self.gangs - self.placed, self.free_slots // self.size)


async def play(gangs: int, size: int, nodes: int, *, share: float = 0.9, as_groups: bool = True, seed: int = 1) -> Rest:
    """Fill the cluster, and look at it."""
    world = World()
    room = int(gangs * size * share)
    for number in range(nodes):
        slots = room // nodes + (number < room % nodes)
        world.add(make_node(f"node-{number}", cpu=str(slots)), initial=True)
    pods = [(f"g{gang}-{number}", f"g{gang}") for gang in range(gangs) for number in range(size)]
    random.Random(seed).shuffle(pods)
    for gang in range(gangs if as_groups else 0):
        world.add_group(pod_group(f"g{gang}", size))
    began = time.process_time()
    async with world.working():
        for at, (name, group) in enumerate(pods):
            fields = {"requests": {"cpu": "1"}}
            world.add(member(name, group, **fields) if as_groups else make_pod(name, **fields))
            if at % 200 == 0:
                await world.settle(5)
        assert len(world.pods()) == gangs * size
        await world.rest()
        await world.pass_seconds(3)
        await world.rest()
    spent = time.process_time() - began
    sizes = world.sizes()
    whole = sum(count == size for count in sizes.values())
    partial = sum(count != size for count in sizes.values())
    return Rest(gangs, whole, partial, room - sum(sizes.values()), size, spent, len(world.bindings))


def main(gangs: int = 500, size: int = 8, nodes: int = 1000) -> None:
    """Print both ways."""
    for as_groups in (True, False):
        rest = asyncio.run(play(gangs, size, nodes, as_groups=as_groups))
        how = "as pod groups" if as_groups else "one by one"
        per_pod = 1e6 * rest.seconds / max(rest.bindings, 1)
        late = rest.waiting_though_it_would_fit
        lines = (
            f"{how}: {rest.placed} of {gangs} gangs whole, {rest.partial} partial, {rest.free_slots} slots free,",
            f"    {late} wait though they would fit; {per_pod:.0f} us of CPU per bound pod",
        )
        sys.stdout.write("\n".join((*lines, "")))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
