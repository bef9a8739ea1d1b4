"""How few nodes would do: nodes are removed at random, and the pods rescheduled, until they no longer fit.

It is the measure by which Borg's scheduling policies were compared (Verma et al., EuroSys 2015): it
answers in machines, and works with any cluster. A trial draws an order of the nodes and of the pods. It removes as many
nodes at once as the sum of the requests lets it, then fewer and fewer where the pods do not fit, down to single nodes.
It ends when `LAST_TRIES` nodes in a row could not go, though the sum of the requests would have let them.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from kscheduler.aio.tasks import finished
from kscheduler.api.core import Node, Pod
from kscheduler.assembly import Ports, group_apis
from kscheduler.compact.compaction_result import Compaction, ProfileCompaction
from kscheduler.compact.free_capacity import CapacityInOrder, FreeCapacity
from kscheduler.compact.repacking import Repacking
from kscheduler.compact.unplaced_cluster import UnplacedCluster
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.fragments.unusable import fragments
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.cluster_input import ClusterInput
from kscheduler.scenario.decide import cluster_cache, profiles_at
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.unreadable import notes_of, readable
from kscheduler.scheduling.profile import Profile, device_counter, ignores_resource
from kscheduler.state.cache import Cache

# Single nodes that are tried in vain before a trial ends.
LAST_TRIES: Final = 8
TRIALS: Final = 11

MOST_TRIALS: Final = 1000

# Called after each trial with the profile, the number of trials that it has made, and the nodes that were left.
Progress = Callable[[str, int, int], None]


def check_trials(trials: object, parameter: str) -> None:
    """Raises `ScenarioError`, which begins with `parameter`."""
    if not isinstance(trials, int) or not 1 <= trials <= MOST_TRIALS:
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
    pods = UnplacedCluster.of(objects, cache.pod_groups.key_of)
    if not pods.moving:
        raise ScenarioError(f"{where}: no pod runs that could move to another node")
    built = profiles_at(where, cache, config, found.served.registry, Ports())
    free = FreeCapacity.of(pods, config.gates, where)
    compared = {profile: free.compared_by(built[profile]) for profile in profiles}
    repackings = [
        Repacking(pods, config, profile, where, tuple(found.groups), found.served.registry, found.absent)
        for profile in profiles
    ]
    return Compaction(
        nodes=len(objects.nodes),
        nodes_in_use=len(pods.nodes_in_use),
        moving=len(pods.moving),
        staying=sum(map(len, pods.staying.values())),
        waiting=pods.waiting,
        terminating=pods.terminating,
        at_least=min(each.fewest for each in compared.values()),
        seed=seed,
        profiles=tuple([_compacted(each, compared[each.profile], trials, seed, progress) for each in repackings]),
        fragments=_fragments(cache, objects.pods, built),
        left_out=tuple(each.name for each in left_out),
        emulation_version=config.gates.version,
        notes=tuple(dict.fromkeys([*found.notes, *notes_of(left_out, where), *_notes(pods, where)])),
    )


def _fragments(cache: Cache, pods: Iterable[Pod], profiles: Mapping[str, Profile]) -> tuple[ResourceFragmentation, ...]:
    """Of the pods as they are placed today."""
    counter = device_counter(profiles.values())
    left = [pod for pod in pods if not pod.is_terminal]

    def of(*, runs: bool) -> Iterator[PodInfo]:
        return (PodInfo(pod) for pod in left if bool(pod.spec.node_name) == runs)

    devices = ClassDevices(cache, lambda: counter)
    ignores = partial(ignores_resource, profiles)
    return finished(fragments(cache, devices, lambda: of(runs=True), lambda: of(runs=False), ignores))


def _notes(pods: UnplacedCluster, where: str) -> Iterator[str]:
    if pods.elsewhere:
        count = "1 pod runs" if pods.elsewhere == 1 else f"{pods.elsewhere} pods run"
        yield f"{where}: {count} on nodes that are not among the objects; rescheduled like the others"


def _compacted(
    repacking: Repacking, free: FreeCapacity, trials: int, seed: int, progress: Progress | None
) -> ProfileCompaction:
    """Of one profile. `free`: for the same pods. Raises `ScenarioError`."""
    nodes, profile = repacking.pods.objects.nodes, repacking.profile
    unplaced = repacking.unplaced_pods([node.metadata.name for node in nodes])
    if unplaced:
        return ProfileCompaction(profile=profile, unplaced=unplaced)
    kept: list[tuple[str, ...]] = []
    for trial in range(trials):
        rng = random.Random(f"{seed}/{trial}")  # noqa: S311  no secret
        kept.append(_trial(repacking, free, _drawn(nodes, rng), _shuffled(repacking.pods.moving, rng)))
        if progress is not None:
            progress(profile, trial + 1, len(kept[-1]))
    best: tuple[str, ...] = min(kept, key=len)
    return ProfileCompaction(profile=profile, trials=tuple(map(len, kept)), kept=tuple(sorted(best)))


def _drawn(nodes: Sequence[Node], rng: random.Random) -> list[str]:
    """Node names in random order, cordoned ones last: a trial removes from the end."""
    drawn = sorted(nodes, key=lambda node: node.metadata.name)
    rng.shuffle(drawn)
    return [node.metadata.name for node in sorted(drawn, key=lambda node: node.spec.unschedulable)]


def _shuffled(pods: Sequence[Pod], rng: random.Random) -> list[Pod]:
    """Another order of arrival for each trial: how well pods are packed depends on it."""
    shuffled = list(pods)
    rng.shuffle(shuffled)
    return shuffled


def _trial(repacking: Repacking, free: FreeCapacity, drawn: Sequence[str], order: Sequence[Pod]) -> tuple[str, ...]:
    """The nodes that are left: the first `length` of those drawn, and some that were found to be needed."""
    capacity, length, at_once = CapacityInOrder(free, drawn), len(drawn), len(drawn)
    stays: list[str] = []
    in_vain = 0
    while length and in_vain < LAST_TRIES:
        may_go = length - capacity.nodes_needed
        if may_go <= 0:  # the others have too little of something, of which the last one has a lot
            length -= 1
            stays.append(drawn[length])
            capacity.keep_node(length)
            continue
        at_once = min(at_once, may_go)
        if not repacking.unplaced_pods([*drawn[: length - at_once], *stays], order):
            length, in_vain, at_once = length - at_once, 0, 2 * at_once
        elif at_once > 1:
            at_once //= 2
        else:
            length -= 1
            stays.append(drawn[length])
            capacity.keep_node(length)
            in_vain += 1
    return (*drawn[:length], *stays)
