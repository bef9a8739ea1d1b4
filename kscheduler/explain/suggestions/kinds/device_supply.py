"""What the cluster could do about its devices: rules of taints that go, and pools that their drivers complete."""

from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.api.devices import ResourceSlice
from kscheduler.explain.suggestions.kinds.taints import KEEPING_OUT, key_value_effect
from kscheduler.explain.suggestions.kubectl_lines import deletion
from kscheduler.explain.suggestions.object_changes import REPLACE, ObjectChange, Operation
from kscheduler.explain.suggestions.suggestion import HALF, Step, Suggestion, SuggestionKind
from kscheduler.explain.suggestions.trials import Trials

_RULES_TRIED: Final = 16
_POOLS_TRIED: Final = 16


class DeleteDeviceTaintRule(SuggestionKind, frozen=True):
    """A DeviceTaintRule is deleted."""

    kind = "deviceTaintRule"

    rule: str
    key: str
    value: str
    effect: str

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        if not trials.lacks_devices:
            return
        rules = [rule for rule in trials.cache.devices.taint_rules() if rule.spec.taint.effect in KEEPING_OUT]
        for rule in rules[:_RULES_TRIED]:
            taint, name = rule.spec.taint, rule.metadata.name
            gone = ObjectChange("devicetaintrules", "", name, delete=True)
            yield Step(cls(name, taint.key, taint.value, taint.effect), (gone,), HALF, name)

    def text(self, step: Step) -> str:
        taint = key_value_effect(self.key, self.value, self.effect)
        return f"delete DeviceTaintRule {self.rule}, which taints devices with {taint}"

    def command(self, step: Step) -> str:
        return deletion(step.changes)


class AwaitPoolUpdate(SuggestionKind, frozen=True):
    """The first pool without which the pod has to wait: it fits if the driver says that what is there is all."""

    kind = "poolUpdate"
    by_kubectl = False

    driver: str
    pool: str
    generation: int
    slices: int
    slice_count: int
    """That the driver will publish."""

    @classmethod
    def found(cls, trials: Trials) -> Iterator[Suggestion]:
        """Nothing is to be applied: it is the driver that completes the pool."""
        if not trials.lacks_devices:
            return
        for driver, pool, generation, pieces in _incomplete(trials.cache.devices.slices())[:_POOLS_TRIED]:
            patch = (Operation(REPLACE, "/spec/pool/resourceSliceCount", len(pieces)),)
            complete = tuple(ObjectChange("resourceslices", "", piece.metadata.name, patch) for piece in pieces)
            if len(rows := trials.rows(complete)):
                expected = pieces[0].spec.pool.resource_slice_count
                step = Step(cls(driver, pool, generation, len(pieces), expected), (), 0.0, f"{driver}/{pool}")
                yield Suggestion((step,), (), len(rows), awaited=complete)
                return

    def text(self, step: Step) -> str:
        are = "is" if self.slices == 1 else "are"
        there = f"{self.slices} of {self.slice_count} slices of generation {self.generation} {are} there"
        return f"wait until pool {self.pool} of driver {self.driver} is complete: its driver is updating it, {there}"


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
