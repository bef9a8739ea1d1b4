"""The recorded configuration against another one: both run freely over the same recording."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass
from kscheduler.assembly.configured import Configured
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.recorder.alternatives.run_measurements import PodPlacement, RunMeasurements
from kscheduler.recorder.alternatives.served_names import serving_recorded, unserved
from kscheduler.recorder.entries import Op, Verb
from kscheduler.recorder.packing import ObjectUnpacker
from kscheduler.recorder.replaying.recorded_configuration import RecordedConfiguration, configured_as
from kscheduler.recorder.replaying.replay import Beginning, RecordingError
from kscheduler.recorder.restored_state import versions_in
from kscheduler.recorder.segments import SegmentName, SegmentReader
from kscheduler.scheduling.attempt_events import EvictionStep

HASHED: Final = "names are hashed in this recording: values of labels in the other configuration match no node"


@dataclass(frozen=True, slots=True)
class MovedPod:
    """A pod that would be elsewhere."""

    pod: str
    before: str
    """Its node under the recorded configuration; empty: none."""
    after: str


@dataclass(slots=True)
class PolicyComparison:
    """What would have been different."""

    before: RunMeasurements
    """Under the recorded configuration, run in the same way."""
    after: RunMeasurements
    first: int
    """Microseconds since the epoch of the beginning, and of the end."""
    last: int
    notes: list[str] = field(default_factory=list)

    def moved(self) -> Iterator[MovedPod]:
        """Pods with another node, or with one in one of the runs only; in the order of the recording."""
        for uid, placement in {**self.before.placed, **self.after.placed}.items():
            before, after = _node(self.before.placed, uid), _node(self.after.placed, uid)
            if before != after:
                yield MovedPod(placement.pod, before, after)


def _node(placed: Mapping[str, PodPlacement], uid: str) -> str:
    found = placed.get(uid)
    return "" if found is None else found.node


class _FollowedVolumes:
    """Volume claims that waited for their first pod and were bound in the recording: both runs keep that."""

    def __init__(self) -> None:
        self._waiting_classes: set[str] = set()
        self._bound: set[str] = set()

    def note(self, change: ExternalChange) -> None:
        """Something happens."""
        old, new = change.old, change.new
        if isinstance(new, StorageClass) and new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            self._waiting_classes.add(new.metadata.name)
        elif isinstance(new, PersistentVolumeClaim) and isinstance(old, PersistentVolumeClaim):
            is_bound_now = bool(new.spec.volume_name) and not old.spec.volume_name
            if is_bound_now and new.storage_class in self._waiting_classes:
                self._bound.add(new.metadata.uid)

    def texts(self) -> Iterator[str]:
        """What to know of them; nothing where there are none."""
        if count := len(self._bound):
            what = "1 volume claim was" if count == 1 else f"{count:,} volume claims were"
            yield f"{what} bound for the recorded scheduler's nodes: both runs keep these volumes"


class RecordedRun:
    """A run of a recording, as external changes. Read twice: the victims must be known from the beginning."""

    def __init__(self, segments: Sequence[SegmentName]) -> None:
        """Raises `RecordingError`, `SegmentError`, `OSError`."""
        self._segments = segments
        self._cut: set[Path] = set()
        """Segments that end before they should."""
        self.notes: list[str] = []
        self.beginning = self._beginning()
        self.length = 0
        """From the snapshot to the last change, in microseconds."""
        self.victims = frozenset(self._victims())

    def _beginning(self) -> Beginning:
        beginning = Beginning()
        for entry in self._entries(self._segments[:1]):
            if entry[0] in (Op.SNAPSHOT, Op.LOST) and beginning.add(entry) is not None:
                return beginning
        raise RecordingError(f"{self._segments[0].path}: its snapshot is not whole")

    @property
    def description(self) -> RecordedConfiguration:
        """What decided. Raises `RecordingError`."""
        if self.beginning.description is None:
            raise RecordingError(f"{self._segments[0].path}: its snapshot is not whole")
        return self.beginning.description

    def _entries(self, segments: Sequence[SegmentName]) -> Iterator[Sequence[Any]]:
        for name in segments:
            reader = SegmentReader(name.path)
            for block in reader.blocks():
                yield from block
            if reader.stopped:
                self._cut.add(name.path)
                self._note(f"{name.path.name}: {reader.stopped}; everything before it is used")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _victims(self) -> Iterator[str]:
        for entry in self._entries(list(self._segments)):
            if entry[0] in (Op.OBJECT, Op.BACKOFF, Op.NET):
                self.length = max(self.length, entry[1] - self.beginning.micros)
            elif entry[0] == Op.EVICTION and entry[3] == EvictionStep.AWAITED:
                yield str(entry[4])

    def external_changes(self) -> Iterator[ExternalChange]:
        """All of it, in order; snapshots of later segments are passed over, except after a gap."""
        stores: dict[int, dict[str, Any]] = {}
        before: SegmentName | None = None
        for name in self._segments:
            is_next = before is not None and name.number == before.number + 1
            if before is not None and not is_next:
                self._note(f"{name.path.name} does not follow {before.path.name}: segments are missing")
            is_after_gap = before is None or not is_next or before.path in self._cut
            yield from self._of_segment(name, stores, is_after_gap=is_after_gap)
            before = name

    def _of_segment(
        self, name: SegmentName, stores: dict[int, dict[str, Any]], *, is_after_gap: bool
    ) -> Iterator[ExternalChange]:
        beginning, is_begun, unpacker, path = Beginning(), False, ObjectUnpacker(), name.path
        for entry in self._entries([name]):
            op = entry[0]
            if not is_begun and op in (Op.SNAPSHOT, Op.LOST):
                is_begun = beginning.add(entry) is not None
                if is_begun and (is_after_gap or beginning.lost):
                    if beginning.lost:
                        self._note(f"{path.name}: {beginning.lost} entries are missing before it")
                    yield from of_snapshot(beginning, stores)
            elif op in (Op.DIGEST, Op.LOST, Op.SNAPSHOT):
                continue
            else:
                yield from self._of_entry(entry, beginning, unpacker, stores)

    def _of_entry(
        self,
        entry: Sequence[Any],
        beginning: Beginning,
        unpacker: ObjectUnpacker,
        stores: dict[int, dict[str, Any]],
    ) -> Iterator[ExternalChange]:
        micros = entry[1]
        if entry[0] in (Op.BACKOFF, Op.NET):
            yield ExternalChange(micros, None, is_net=entry[0] == Op.NET)
        elif entry[0] == Op.APPLIED:
            self._note("the configuration was changed meanwhile; each run keeps its own to the end")
        elif entry[0] == Op.OBJECT:
            number, verb, key, packed = entry[2:]
            kind, store = beginning.kinds[number], stores.setdefault(number, {})
            old, new = store.get(key), None
            if verb == Verb.DELETED:
                store.pop(key, None)
            elif verb == Verb.UPDATED and old is not None:
                new = store[key] = unpacker.update(kind, old, packed)
            else:
                new = unpacker.whole(kind, packed)
                old = store.get(new.key)
                store[new.key] = new
            yield ExternalChange(micros, kind, old, new)


def of_snapshot(beginning: Beginning, stores: dict[int, dict[str, Any]]) -> Iterator[ExternalChange]:
    """Everything that was there, and before it the end of what is in `stores` and is there no more.

    Pods come last, those on nodes first: a pod that waits is decided about at once.
    """
    yield from _gone_by(beginning, stores)
    found = [(beginning.kinds[number], number, obj) for number, objects in beginning.stored for obj in objects]
    found += _written_claims(beginning)
    found.sort(key=lambda each: 0 if each[0] is not PODS else 1 if each[2].spec.node_name else 2)
    for kind, number, obj in found:
        store = stores.setdefault(number, {})
        old, store[obj.key] = store.get(obj.key), obj
        yield ExternalChange(beginning.micros, kind, old, obj)


def _gone_by(beginning: Beginning, stores: dict[int, dict[str, Any]]) -> Iterator[ExternalChange]:
    """What went during a gap; an object under the same key with another UID is another object."""
    there = {(number, obj.key): obj.metadata.uid for number, objects in beginning.stored for obj in objects}
    for number, store in stores.items():
        for key, old in list(store.items()):
            if there.get((number, key)) != old.metadata.uid:
                del store[key]
                yield ExternalChange(beginning.micros, beginning.kinds[number], old, None)


def _written_claims(beginning: Beginning) -> Iterator[tuple[Kind, int, Any]]:
    """Claims as the scheduler had written them, where the watch had not shown that yet: their devices are taken."""
    versions = versions_in(beginning.state, beginning.versions) if beginning.state.get("assumed claims") else []
    for number, name in beginning.state.get("assumed claims", ()):
        if isinstance(name, int) and versions[name] is not None:
            yield beginning.kinds[number], number, versions[name]


def compared(recorded: RecordedRun, other: Configured, own: Configured | None = None) -> PolicyComparison:
    """Run both. Raises `RecordingError`, `ConfigError`, `SegmentError`, `OSError`.

    `own`: the recorded configuration, where it cannot be built from the files of today; `None`: it can.
    """
    description = recorded.description
    last = recorded.beginning.micros
    own, measured, came = own or configured_as(description), [], dict[str, str]()
    volumes, named = _FollowedVolumes(), list[str]()
    for is_own in (True, False):
        if not is_own:
            other, named = serving_recorded(own, other, Counter(came.values()))
        run = FreeRun(own if is_own else other, recorded.beginning.kinds, recorded.victims, recorded.length)
        for change in recorded.external_changes():
            run.apply_external(change)
            last = change.micros
            volumes.note(change)
            if change.kind is PODS and isinstance(change.new, Pod) and not change.new.is_terminal:
                came.setdefault(change.new.metadata.uid, _to_decide(change.new))
        measured.append(run.end())
    before, after = measured
    rules = rules_apart(description.feature_gates, other.config.gates)
    notes = [*recorded.notes, *rules, *named, *unserved(own, other, Counter(came.values())), *volumes.texts()]
    if description.is_redacted:
        notes.append(HASHED)
    return PolicyComparison(before, after, recorded.beginning.micros, last, notes)


def _to_decide(pod: Pod) -> str:
    """The scheduler that a pod comes for; empty for one that comes with a node."""
    return "" if pod.spec.node_name else pod.spec.scheduler_name


def rules_apart(recorded: FeatureGates, other: FeatureGates) -> Iterator[str]:
    """What OTHER follows that the recorded scheduler did not: the comparison is of this too."""
    if other.version != recorded.version:
        yield f"OTHER decides as kube-scheduler {other.version}, the recorded one as {recorded.version}"
    names = sorted(
        name
        for name in {**recorded.chosen, **other.chosen}
        if not {name}.issubset(recorded.known.keys() & other.known.keys())
        or recorded.enabled(name) != other.enabled(name)
    )
    if names:
        gates = ",".join(f"{name}={_setting(other, name)}" for name in names)
        was = ",".join(f"{name}={_setting(recorded, name)}" for name in names)
        yield f"OTHER has the feature gates {gates}, the recorded one {was}"


def _setting(gates: FeatureGates, name: str) -> str:
    return str(gates.enabled(name)).lower() if name in gates.known else "unknown"
