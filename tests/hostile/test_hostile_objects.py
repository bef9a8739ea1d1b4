"""Whatever a tenant or a controller writes, at the API server's limits, the loop is held for 0.2 s at most.

Each case of the catalogue is created beside sound pods on 1,000 nodes, tried, and deleted. By default objects of 100 kB
in the style that has the most entries; with KSCHEDULER_FUZZ=1 all styles at the largest size, which takes an hour.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from kscheduler.api.codec import Decoder
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.new_objects import objections
from tests.hostile.cases import CASES, LARGEST, PLAYED_KINDS, Case
from tests.hostile.play import HostileCluster, Round, play, slowness
from tests.hostile.shapes import steps
from tests.hostile.words import Style

LONGEST_STEP_SECONDS: Final = 0.2
P99_SECONDS: Final = 0.1
IS_LONG: Final = os.environ.get("KSCHEDULER_FUZZ") == "1"
SIZE: Final = LARGEST if IS_LONG else 100_000
SMALL: Final = 3_000
# Of the metadata: each object has them, and a deletion is asked for.
BY_API_SERVER: Final = {"name", "namespace", "uid", "resource_version", "deletion_timestamp"}


def is_played(case: Case) -> bool:
    """Whether the case is part of this run."""
    if case.kind not in PLAYED_KINDS:
        return False
    return IS_LONG or f"-{Style.UNIQUE}" in case.id or case.id.endswith("odd-values") or not case.fields


def is_late(found: Round, slowness: float = 1.0) -> bool:
    """Whether a step was too long, or a sound pod waited for too long; `slowness` as of `play.slowness`."""
    return found.longest_step > slowness * LONGEST_STEP_SECONDS or found.p99 > slowness * P99_SECONDS


def groups() -> Iterator[Any]:
    """The cases of each kind, 16 in a cluster: the cluster of each test costs as much as four cases."""
    by_kind: dict[str, list[Case]] = {}
    for case in filter(is_played, CASES.values()):
        by_kind.setdefault(case.kind.resource, []).append(case)
    for resource, cases in by_kind.items():
        parts = -(-len(cases) // 16)
        for part in range(parts):
            is_quick = part == 0 and resource in {"pods", "nodes", "persistentvolumeclaims"}
            marks = [] if is_quick else [pytest.mark.slow("plays sixteen objects of 100 kB")]
            yield pytest.param(cases[part::parts], id=f"{resource}-{part}", marks=marks)


@pytest.mark.parametrize("cases", list(groups()))
async def test_no_object_holds_the_loop_or_delays_a_sound_pod(cases: list[Case]) -> None:
    service, wrong = HostileCluster(), list[str]()
    async with service.at_work():
        await play(service, [], name="first")  # what is made once is made
        for seed, case in enumerate(cases, start=10):
            found = await play(service, case.objects(seed, SIZE))
            slow = 1.0
            if is_late(found):  # once more: on a busy machine, the caches are another process's after each switch
                before = slowness()
                found = await play(service, case.objects(seed + 1000, SIZE))
                slow = max(before, slowness())
            if is_late(found, slow) or found.unbound:
                wrong.append(
                    f"{case.id}: longest step {found.longest_step:.2f} s, p99 of sound pods {found.p99:.3f} s, "
                    f"{len(found.unbound)} of them without a node"
                )
    assert not wrong, "\n".join(wrong)
    for informer in service.cluster.informers.values():
        reported = informer.statistics()
        assert (reported.handler_errors, reported.undecodable_total) == (0, 0), (
            f"{reported.resource}: an event was not taken"
        )


def test_each_field_that_the_scheduler_reads_has_a_case() -> None:
    """Fields are found in the structs: one that is added there needs a word in `tests/hostile/sound.py`."""
    covered = {field for case in CASES.values() for field in case.fields}
    for kind in PLAYED_KINDS:
        assert fields_below(kind.type) <= covered, f"{kind.name}: fields without a hostile case"


def fields_below(struct: type[msgspec.Struct]) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for step in steps(struct):
        if struct is ObjectMeta and step.field.name in BY_API_SERVER:
            continue
        found.add(step.key)
        if step.holds_struct:
            found |= fields_below(step.inner)
    return found


@pytest.mark.parametrize("resource", sorted({case.kind.resource for case in CASES.values()}))
def test_a_case_fills_the_fields_that_it_names(resource: str) -> None:
    of_kind = [case for case in CASES.values() if case.kind.resource == resource and f"-{Style.LONG}" in case.id]
    for case in of_kind:
        made = case.objects(1, SMALL)
        kind, tree = next((kind, tree) for kind, tree in made if kind is case.kind)
        body = json.dumps(tree)
        decoded = Decoder(kind.type).decode(body)
        seen = set(set_fields(decoded))
        assert case.fields <= seen, f"{case.id} leaves {case.fields - seen} empty"


def set_fields(value: Any) -> Iterator[tuple[str, str]]:
    """The fields, in all structs below, that are not as they are by default."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(type(value)):
            child = getattr(value, field.name)
            if child not in (field.default, None, (), {}):
                yield type(value).__name__, field.name
                yield from set_fields(child)
    elif isinstance(value, tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from set_fields(one)


@pytest.mark.parametrize("resource", sorted({case.kind.resource for case in CASES.values()}))
def test_an_api_server_takes_what_is_said_to_be_accepted(resource: str) -> None:
    of_kind = (case for case in CASES.values() if case.kind.resource == resource and case.is_accepted)
    for case in of_kind:
        for kind, tree in case.objects(2, SMALL):
            assert objections(tree) == [], f"{case.id}: {kind.name}"


def test_the_same_seed_makes_the_same_objects_and_another_seed_others() -> None:
    for case in list(CASES.values())[::7]:
        first, again, other = (json.dumps([tree for _, tree in case.objects(seed, SMALL)]) for seed in (1, 1, 2))
        assert first == again
        assert first != other, case.id


def test_objects_are_as_large_as_queried_for() -> None:
    for name in ("Pod-spec.nodeSelector-unique", "ResourceClaim-spec.devices.requests.exactly.selectors-long"):
        size = len(json.dumps(CASES[name].objects(1, 1_000_000)[0][1]))
        assert 800_000 < size < LARGEST, name
