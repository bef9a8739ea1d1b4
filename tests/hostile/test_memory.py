"""What a tenant writes is forgotten when it is gone: tables are bounded by bytes, and not only by their entries.

Giant pods, claims and groups of ever new words come and go, one at a time. What is kept of them reaches a level and
stays there.
"""

import gc
import json
import os
import sys
from itertools import count, cycle
from typing import Final

import pytest

from kscheduler.api.codec import Decoder
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS
from kscheduler.plugins.dynamic_resources import node_result_cache
from tests.effort import sampled
from tests.hostile.cases import CASES, Case
from tests.hostile.play import HostileCluster, play, resident
from tests.hostile.words import Style

HUNDREDS = pytest.mark.slow("plays hundreds of objects of 100 kB")

IS_LONG: Final = os.environ.get("KSCHEDULER_FUZZ") == "1"
SIZE: Final = 1_000_000 if IS_LONG else 100_000
ROUNDS: Final = 50 if IS_LONG else 8
NODES: Final = 10
OF_TENANTS: Final = (PODS, RESOURCE_CLAIMS, POD_GROUPS)
LAST: Final = 4
# Of the blocks that an object takes when it is decoded: what each of the later rounds may add to those in use.
#
# Of eight rounds, that is one object: the last one that failed may still be held when the rounds end.
MAX_KEPT: Final = 0.2
# Of what counts by its number: the pod's own key in logs and rings.
FEW_BLOCKS: Final = 200
GIANTS: Final = (
    "ResourceClaim-spec.devices.requests-unique",
    "Pod-metadata.labels-long",
    "Pod-spec.nodeSelector-long",
    "Pod-spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms-unique",
    "Pod-spec.containers-unique",
    "Pod-spec.tolerations-long",
    "Pod-spec.volumes-unique",
    "Pod-status.containerStatuses-unique",
    "Pod-spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution-unique",
    "Pod-spec.topologySpreadConstraints-unique",
    "Service-spec.selector-unique",
    "PersistentVolume-spec.nodeAffinity.required.nodeSelectorTerms.matchExpressions-unique",
    "PodGroup-metadata.annotations-unique",
)


@pytest.mark.parametrize("name", sampled(GIANTS, 1, "plays 24 objects of 100 kB"))
async def test_what_is_kept_of_giants_that_come_and_go_reaches_a_level(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A table of 128 entries is not full after so few objects: with fewer, it shows whether it lets any go.
    monkeypatch.setattr(node_result_cache, "MAX_TEMPLATES", ROUNDS)
    service, case, seed = HostileCluster(NODES), CASES[name], 0

    async def blocks_after(rounds: int) -> int:
        """The fewest after one of the last rounds: a machine that is busy holds the last three objects now and then."""
        nonlocal seed
        blocks = []
        for number in range(rounds):
            seed += 1
            await play(service, case.objects(seed, SIZE), sound=1)
            if number >= rounds - LAST:
                gc.collect()
                blocks.append(sys.getallocatedblocks())
        return min(blocks)

    async with service.at_work():
        first = await blocks_after(2 * ROUNDS)
        last = await blocks_after(ROUNDS)
    kept = (last - first) / ROUNDS
    assert kept < max(MAX_KEPT * blocks_of(case), FEW_BLOCKS), f"each object leaves {kept:.0f} blocks of memory"


def blocks_of(case: Case) -> int:
    """How many blocks the case's largest object takes."""
    kind, tree = max(case.objects(0, SIZE), key=lambda made: len(str(made[1])))
    watched = json.dumps(tree)
    gc.collect()
    before = sys.getallocatedblocks()
    decoded = Decoder(kind.type).decode(watched)
    taken = sys.getallocatedblocks() - before
    del decoded
    return taken


@HUNDREDS
async def test_after_hundreds_of_hostile_objects_at_once_memory_is_what_it_was() -> None:
    """Of pods, claims and groups, no two alike, that are there together. Tables are full after sixty."""
    service, seed = HostileCluster(NODES), count()
    cases = [case for case in CASES.values() if case.kind in OF_TENANTS and case.is_accepted]
    cases = [case for case in cases if f"-{Style.UNIQUE}" in case.id or not case.fields][::6]

    async def resident_after(objects: int) -> int:
        made = [one for _, case in zip(range(objects), cycle(cases)) for one in case.objects(next(seed), 10_000)]
        await play(service, made, sound=1)
        del made
        return resident()

    async with service.at_work():
        before = await resident_after(60)
        after = await resident_after(140)
    assert after < 1.2 * before, f"{before >> 20} MiB before, and {after >> 20} MiB when they are gone"
