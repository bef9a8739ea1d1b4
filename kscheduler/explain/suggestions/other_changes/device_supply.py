"""What the cluster could do about its devices: rules of taints that go, and pools that their drivers complete."""

from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.api.devices import ResourceSlice
from kscheduler.explain.suggestions.changed import REPLACE, ObjectChange, Operation
from kscheduler.explain.suggestions.other_changes.wanted_devices import wants_devices
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.explain.suggestions.trials.trial import Trials

_RULES_TRIED: Final = 16
_POOLS_TRIED: Final = 16
_KEEPING: Final = ("NoSchedule", "NoExecute")


def rule_changes(trials: Trials) -> Iterator[Step]:
    """Proposals: a DeviceTaintRule is deleted. They are not tried yet."""
    if not wants_devices(trials):
        return
    rules = [rule for rule in trials.cache.devices.taint_rules() if rule.spec.taint.effect in _KEEPING]
    for rule in rules[:_RULES_TRIED]:
        taint, name = rule.spec.taint, rule.metadata.name
        facts = {"rule": name, "key": taint.key, "value": taint.value, "effect": taint.effect}
        gone = ObjectChange("devicetaintrules", "", name, delete=True)
        yield Step(ChangeKind.DEVICE_TAINT_RULE, (gone,), 0.5, facts, name)


def pool_updates(trials: Trials) -> Iterator[Suggestion]:
    """The first pool without which the pod has to wait: it fits if the driver says that what is there is all."""
    if not wants_devices(trials):
        return
    for driver, pool, generation, pieces in _incomplete(trials.cache.devices.slices())[:_POOLS_TRIED]:
        path = "/spec/pool/resourceSliceCount"
        patch = (Operation(REPLACE, path, len(pieces)),)
        complete = tuple(ObjectChange("resourceslices", "", piece.metadata.name, patch) for piece in pieces)
        if len(rows := trials.rows(complete)):
            expected = pieces[0].spec.pool.resource_slice_count
            facts = {"driver": driver, "pool": pool, "generation": generation}
            facts |= {"slices": len(pieces), "sliceCount": expected}
            step = Step(ChangeKind.POOL_UPDATE, (), 0.0, facts, f"{driver}/{pool}")
            yield Suggestion((step,), (), len(rows), awaited=complete)
            return


def _incomplete(slices: Sequence[ResourceSlice]) -> list[tuple[str, str, int, list[ResourceSlice]]]:
    """Pools that lack slices, by driver and name, each with the slices of its newest generation."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in slices:
        pools.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    found = []
    for (driver, pool), pieces in sorted(pools.items()):
        generation = max(piece.spec.pool.generation for piece in pieces)
        newest = [piece for piece in pieces if piece.spec.pool.generation == generation]
        if len(newest) < newest[0].spec.pool.resource_slice_count:
            found.append((driver, pool, generation, newest))
    return found
