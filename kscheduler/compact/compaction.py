"""How few nodes would do: nodes are taken away at random, and the pods placed anew, until they no longer fit.

It is the measure by which Borg's scheduling policies were compared (Verma et al., EuroSys 2015): it
answers in machines, and works with any cluster. A trial draws an order of the nodes and takes away as many at once as
the sum of the requests lets it, then fewer and fewer where the pods do not fit, down to single nodes. It ends when
`LAST_TRIES` nodes in a row could not go, though the sum of the requests would have let them.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kscheduler.api.core import Node
from kscheduler.assembly import group_apis
from kscheduler.compact.compaction_result import Compaction, ProfileCompaction
from kscheduler.compact.fragments import fragments, typical_pods
from kscheduler.compact.moving_pods import MovingPods
from kscheduler.compact.repacking import DrawnRoom, FreeRoom, Repacking
from kscheduler.scenario.cluster_input import ClusterInput
from kscheduler.scenario.decide import cluster_cache
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.unreadable import notes_of, readable

# Single nodes that are tried in vain before a trial ends.
LAST_TRIES: Final = 8
TRIALS: Final = 11

MOST_TRIALS: Final = 1000

# Called after each trial with the profile, the number of trials that it has made, and the nodes that were left.
Progress = Callable[[str, int, int], None]


def check_trials(trials: int, parameter: str) -> None:
    """Raises `ScenarioError`, which begins with `parameter`."""
    if not 1 <= trials <= MOST_TRIALS:
        raise ScenarioError(f"{parameter}: {trials} is not from 1 to {MOST_TRIALS}")


def compact(
    found: ClusterInput, profiles: Sequence[str], *, trials: int, seed: int, progress: Progress | None = None
) -> Compaction:
    """Make the trials for these profiles, in turn. Raises `ScenarioError`."""
    objects, left_out = readable(found.objects)
    if not objects.nodes:
        raise ScenarioError(f"{found.where}: there are no nodes")
    config, where = found.served.config, found.where
    cache = cluster_cache(objects, None, config.gates, where, group_apis(config))
    pods = MovingPods.of(objects, cache.pod_groups.key_of)
    if not pods.moving:
        raise ScenarioError(f"{where}: no pod runs that could move to another node")
    room = FreeRoom(pods, config.gates, where)
    repackings = [
        Repacking(pods, config, profile, where, tuple(found.groups), found.served.registry) for profile in profiles
    ]
    running, waiting = typical_pods(objects.pods)
    return Compaction(
        nodes=len(objects.nodes),
        nodes_in_use=len(pods.nodes_in_use),
        moving=len(pods.moving),
        staying=sum(map(len, pods.staying.values())),
        waiting=pods.waiting,
        leaving=pods.leaving,
        at_least=room.fewest,
        seed=seed,
        profiles=tuple([_compacted(each, room, trials, seed, progress) for each in repackings]),
        fragments=fragments(cache, running, waiting),
        left_out=tuple(each.name for each in left_out),
        emulation_version=config.gates.version,
        notes=tuple(dict.fromkeys([*found.notes, *notes_of(left_out, where), *_notes(pods, where)])),
    )


def _notes(pods: MovingPods, where: str) -> Iterator[str]:
    if pods.elsewhere:
        count = "1 pod runs" if pods.elsewhere == 1 else f"{pods.elsewhere} pods run"
        yield f"{where}: {count} on nodes that are not among the objects; placed anew like the others"


def _compacted(
    repacking: Repacking, room: FreeRoom, trials: int, seed: int, progress: Progress | None
) -> ProfileCompaction:
    """Of one profile. `room`: of the same pods. Raises `ScenarioError`."""
    nodes, profile = repacking.pods.objects.nodes, repacking.profile
    unplaced = repacking.left_over([node.metadata.name for node in nodes])
    if unplaced:
        return ProfileCompaction(profile=profile, unplaced=unplaced)
    kept: list[tuple[str, ...]] = []
    for trial in range(trials):
        kept.append(_trial(repacking, room, _drawn(nodes, random.Random(f"{seed}/{trial}"))))  # noqa: S311  no secret
        if progress is not None:
            progress(profile, trial + 1, len(kept[-1]))
    best: tuple[str, ...] = min(kept, key=len)
    return ProfileCompaction(profile=profile, trials=tuple(map(len, kept)), kept=tuple(sorted(best)))


def _drawn(nodes: Sequence[Node], chance: random.Random) -> list[str]:
    """The nodes in the order in which they are kept: those that take no pods go first."""
    drawn = sorted(nodes, key=lambda node: node.metadata.name)
    chance.shuffle(drawn)
    return [node.metadata.name for node in sorted(drawn, key=lambda node: node.spec.unschedulable)]


def _trial(repacking: Repacking, free: FreeRoom, drawn: Sequence[str]) -> tuple[str, ...]:
    """The nodes that are left: the first `length` of those drawn, and some that were found to be needed."""
    room, length, at_once = DrawnRoom(free, drawn), len(drawn), len(drawn)
    stays: list[str] = []
    in_vain = 0
    while length and in_vain < LAST_TRIES:
        may_go = length - room.needed
        if may_go <= 0:  # the others have too little of something, of which the last one has a lot
            length -= 1
            stays.append(drawn[length])
            room.keep(length)
            continue
        at_once = min(at_once, may_go)
        if not repacking.left_over([*drawn[: length - at_once], *stays]):
            length, in_vain, at_once = length - at_once, 0, 2 * at_once
        elif at_once > 1:
            at_once //= 2
        else:
            length -= 1
            stays.append(drawn[length])
            room.keep(length)
            in_vain += 1
    return (*drawn[:length], *stays)
