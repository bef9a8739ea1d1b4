"""Segments of a run, in order, decided again.

Between segments of one run the replay goes on; a snapshot is put back at the beginning, after a gap, after a segment
that was cut or is missing, and where the replay went astray. All differences are counted, the first are kept.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final

from kscheduler.api.groups import COMPOSITE_POD_GROUPS, COMPOSITES, POD_GROUPS, CompositePodGroup
from kscheduler.api.kinds import KINDS, Kind
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.api.topologies import HYPER_NODES, TOPOLOGY_KINDS
from kscheduler.config.errors import ConfigError
from kscheduler.recorder.blocks import SegmentError
from kscheduler.recorder.entries import DECISIONS, OUTCOMES, Digest, Entry, Op, outcome
from kscheduler.recorder.packing import ObjectUnpacker
from kscheduler.recorder.replaying.comparing import DecisionDifference, in_words, subject_of
from kscheduler.recorder.replaying.recorded_configuration import (
    RecordedConfiguration,
    changed_plugins,
    configured_as,
    not_as_recorded,
    read_description,
)
from kscheduler.recorder.replaying.replayed_scheduler import (
    Configure,
    Replayed,
    ReplayedScheduler,
    ReplayLostError,
    UnrecordedError,
)
from kscheduler.recorder.segments import SegmentName, SegmentReader, name_of, others_in, runs_in
from kscheduler.state.group_apis import OTHER_APIS

# Differences that are kept in words; the others are counted.
MAX_KEPT: Final = 100


class RecordingError(Exception):
    """The recording cannot be replayed. The message names the file, and what to do."""


@dataclass(slots=True)
class Report:
    """What came of a replay."""

    segments: int = 0
    entries: int = 0
    decisions: int = 0
    followed: Counter[str] = field(default_factory=Counter)
    """Outcomes that were taken as recorded, by reason."""
    differing: int = 0
    differences: list[DecisionDifference] = field(default_factory=list)
    """The first of them."""
    by_plugin: Counter[str] = field(default_factory=Counter)
    """Differences of profiles with plugins that decide from data of their own, by plugin."""
    digests: int = 0
    """Batches whose running hash was compared."""
    wrong_digests: int = 0
    digest: str = ""
    """The running hash over all replayed outcomes at the end."""
    astray: list[str] = field(default_factory=list)
    lost: int = 0
    """Entries that the recording says are missing."""
    stopped: list[str] = field(default_factory=list)
    """Segments that end before they should: where and why."""
    damaged: int = 0
    """How many of them hold something after that which cannot be believed."""
    notes: list[str] = field(default_factory=list)
    first: int = 0
    """Microseconds since the epoch of the first step, and of the last."""
    last: int = 0
    kscheduler: str = ""
    """The version that recorded."""
    is_redacted: bool = False
    """Names are pseudonyms; of messages the numbers are compared."""

    @property
    def is_equal(self) -> bool:
        """Whether every decision that could be judged came out as recorded, and no part of it could not be followed."""
        return not (self.differing - sum(self.by_plugin.values()) or self.astray or self.damaged)


@dataclass(slots=True)
class Beginning:
    """The snapshot of a segment, as far as it has been read."""

    objects: ObjectUnpacker = field(default_factory=ObjectUnpacker)
    lost: int = 0
    digest: bytes = b""
    decisions: int = 0
    description: RecordedConfiguration | None = None
    micros: int = 0
    kinds: list[Kind] = field(default_factory=list)
    stored: list[tuple[int, list[Any]]] = field(default_factory=list)
    versions: list[tuple[int, Any]] = field(default_factory=list)
    state: Mapping[str, Any] = field(default_factory=dict)

    def add(self, entry: Entry) -> Mapping[str, Any] | None:
        """Returns the state, with which the snapshot is complete."""
        if entry[0] == Op.LOST:
            self.lost += entry[1]
            return None
        _, part, *rest = entry
        if part == "digest":
            self.digest, self.decisions = rest
        elif part == "configuration":
            self.description, self.micros = read_description(rest[0]), rest[1]
            self.kinds = [_kind_of(resource, self.description.kubernetes) for resource in rest[2]]
        elif part == "objects":
            self.stored.append((rest[0], self._read(*rest)))
        elif part == "versions":
            self.versions += [(rest[0], obj) for obj in self._read(*rest)]
        elif part == "state":
            self.state = rest[0]
            return self.state
        return None

    def _read(self, number: int, packed: Sequence[Any]) -> list[Any]:
        return [self.objects.whole(self.kinds[number], each) for each in packed]


def _kind_of(resource: str, followed: str) -> Kind:
    """The kind of a resource, where the rules of this version of Kubernetes are followed."""
    found = _KINDS.get(resource)
    if found is not None and found.type is CompositePodGroup and followed in BEHAVIOURS:
        return COMPOSITES[BEHAVIOURS[followed].composite_version]
    if found is None:
        raise RecordingError(f"it has objects of {resource}, which this kscheduler does not know")
    return found


_OF_GROUPS: Final = (POD_GROUPS, COMPOSITE_POD_GROUPS, *(api.kind for api in OTHER_APIS.values()))
_OF_TOPOLOGIES: Final = (TOPOLOGY_KINDS["kueue"], HYPER_NODES)
_KINDS: Final = {kind.resource: kind for kind in (*KINDS.values(), *_OF_GROUPS, *_OF_TOPOLOGIES)}


class Replay:
    """One run."""

    def __init__(
        self,
        configure: Configure = configured_as,
        *,
        until: int | None = None,
        each_segment: bool = False,
        on_outcome: Callable[[Entry, Replayed], None] | None = None,
    ) -> None:
        """`until`: microseconds since the epoch at which to stop. `each_segment`: put back each snapshot."""
        self._configure = configure
        self._until = until
        self._each_segment = each_segment
        self._on_outcome = on_outcome
        self._digest = Digest()
        self._outcomes: list[Entry] = []
        """Replayed ones that the digest does not cover yet."""
        self._was_cut = False
        """The segment before ends too early."""
        self.report = Report()
        self.scheduler: ReplayedScheduler | None = None
        """As it is now; `None` before the first snapshot."""
        self.is_over = False
        """The time of `until` has come."""

    def run(self, segments: Iterable[SegmentName]) -> None:
        """Replay the segments of a run. Raises `RecordingError`, `ConfigError`, `SegmentError`, `OSError`."""
        before: SegmentName | None = None
        for name in segments:
            is_next = before is not None and name.run == before.run and name.number == before.number + 1
            if before is not None and not is_next:
                self.report.notes.append(f"{name.path.name} does not follow {before.path.name}: segments are missing")
            self._segment(name.path, goes_on=is_next and not self._each_segment)
            before = name
            if self.is_over:
                break
        self.report.digest = self._covered().hex()

    def _segment(self, path: Path, *, goes_on: bool) -> None:
        reader, beginning = SegmentReader(path), Beginning()
        self.report.segments += 1
        is_begun = False
        try:
            for block in reader.blocks():
                for entry in block:
                    if not is_begun and entry[0] in (Op.SNAPSHOT, Op.LOST):
                        state = beginning.add(entry)
                        if state is None:
                            continue
                        if self._until is not None and beginning.micros > self._until:
                            self.is_over = True
                            return
                        self._begin(beginning, state, goes_on=goes_on)
                        is_begun = True
                    elif self._take(entry, path):
                        return
        except SegmentError as problem:  # somebody else's file, or its beginning is destroyed
            self.report.stopped.append(str(problem))
            self.report.damaged += 1
            self._was_cut = True
            return
        except ConfigError as problem:  # must precede the next clause: it is a ValueError, and no recording is to blame
            self._cannot_build(path, problem)
            return
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
            problem.add_note(f"in {path}")
            raise RecordingError(
                f"{path}: it holds what no recorder writes ({type(problem).__name__}: {problem})"
            ) from (problem)
        self._was_cut = bool(reader.stopped)
        if reader.stopped:
            self.report.stopped.append(f"{path.name}: {reader.stopped}")
        self.report.damaged += reader.is_damaged
        if not is_begun:
            self.report.stopped.append(f"{path.name}: its snapshot is not whole")

    def _cannot_build(self, path: Path, problem: ConfigError) -> None:
        """Report what has been replayed so far. Raises `RecordingError` if that is nothing."""
        if not self.report.first:
            raise RecordingError(f"{path}: {not_as_recorded(problem)}") from problem
        self.report.astray.append(f"{path.name}: {not_as_recorded(problem)}")
        self.scheduler = None

    def _begin(self, beginning: Beginning, state: Mapping[str, Any], *, goes_on: bool) -> None:
        assert beginning.description is not None  # noqa: S101  it comes before the state
        self.report.lost += beginning.lost
        is_whole = goes_on and not beginning.lost and self.scheduler is not None and not self._was_cut
        if is_whole and self.scheduler is not None:
            self.scheduler.follow_segment()
            return
        scheduler = ReplayedScheduler(beginning.description, beginning.kinds, self._configure)
        self.report.kscheduler = beginning.description.version
        self.report.is_redacted = self.report.is_redacted or beginning.description.is_redacted
        self.report.notes += [
            note for note in changed_plugins(beginning.description, scheduler.origins) if note not in self.report.notes
        ]
        for number, objects in beginning.stored:
            scheduler.stored(number, objects)
        scheduler.put_back(state, beginning.versions, beginning.micros)
        self.report.notes += [f"at a snapshot: {each}" for each in state["inexact"]]
        self._digest, self._outcomes = Digest(beginning.digest, beginning.decisions), []
        self.scheduler = scheduler
        self.report.first = self.report.first or beginning.micros
        self.report.last = max(self.report.last, beginning.micros)

    def _take(self, entry: Entry, path: Path) -> bool:
        """One entry; returns whether `until` has come."""
        self.report.entries += 1
        if entry[0] == Op.DIGEST:
            self._compare_digest(entry)
            return False
        scheduler = self.scheduler
        if scheduler is None:
            return False  # astray, until the next snapshot
        if self._until is not None and entry[1] > self._until:
            self.is_over = True
            return True
        try:
            replayed = scheduler.take(entry)
        except ReplayLostError as problem:
            if not isinstance(problem, UnrecordedError):
                self.report.astray.append(f"{path.name}: {problem}")
            self.report.notes += scheduler.notes
            self.scheduler = None
            return False
        self.report.last = scheduler.clock.micros
        if entry[0] in OUTCOMES and replayed is not None:
            self._judge(entry, replayed, scheduler)
        if scheduler.notes:
            self.report.notes += scheduler.notes
            scheduler.notes.clear()
        return False

    def _judge(self, entry: Entry, replayed: Replayed, scheduler: ReplayedScheduler) -> None:
        report = self.report
        report.decisions += entry[0] in DECISIONS
        if self._on_outcome is not None:
            self._on_outcome(entry, replayed)
        recorded = outcome(entry)
        self._outcomes.append(replayed.outcome)
        if replayed.followed:
            report.followed[replayed.followed] += 1
            return
        if Digest.of(recorded) == Digest.of(replayed.outcome):
            return
        report.differing += 1
        because = _outside(scheduler, replayed.profile)
        if because:
            report.by_plugin[because] += 1
        if len(report.differences) < MAX_KEPT:
            text = in_words(recorded, replayed.outcome)
            found = DecisionDifference(scheduler.clock.micros, report.decisions, subject_of(recorded), text, because)
            report.differences.append(found)

    def _covered(self) -> bytes:
        outcomes, self._outcomes = self._outcomes, []
        return self._digest.cover(outcomes)

    def _compare_digest(self, entry: Entry) -> None:
        if self.scheduler is None:
            return
        _, _, recorded = entry
        self.report.digests += 1
        if self._covered() != recorded:
            self.report.wrong_digests += 1
            self._digest = Digest(recorded, self._digest.decisions)  # so that each batch is judged by itself


def _outside(scheduler: ReplayedScheduler, profile: str) -> str:
    """The plugins of a profile that decide from data which are not in the recording.

    Where names are hashed, these are all plugins of your own: what they do with a name or a label's value is not known.
    """
    found = scheduler.assembly.profiles.get(profile)
    if found is None:
        return ""
    own = scheduler.is_redacted
    return ", ".join(
        sorted(name for name, of in found.traits.items() if of.is_refreshed or (own and not of.is_in_tree))
    )


def beginning_of(segments: Sequence[SegmentName]) -> int:
    """When the first segment begins, in microseconds since the epoch. Raises `RecordingError`, `OSError`."""
    for block in SegmentReader(segments[0].path).blocks():
        for entry in block:
            if entry[0] == Op.SNAPSHOT and entry[1] == "configuration":
                return int(entry[3])
    raise RecordingError(f"{segments[0].path}: its snapshot is not whole")


def runs_of(path: Path) -> Iterator[list[SegmentName]]:
    """The runs of a directory, or the one segment of a file. Raises `RecordingError` and `OSError`."""
    if path.is_dir():
        found, others = list(runs_in(path)), [[name] for name in others_in(path)]
        if not found and not others:
            raise RecordingError(f"{path}: there is no recording in this directory")
        # The name of a copy does not say when it began; what cannot be read is told last.
        yield from sorted([*found, *others], key=_begins) if others else found
        return
    name = name_of(path) or SegmentName(path.stem, 1, path)
    yield [name]


def last_run_of(path: Path) -> list[SegmentName]:
    """The newest run whose beginning can be read. Raises as `runs_of`."""
    runs = list(runs_of(path))
    return next((run for run in reversed(runs) if _begins(run) < inf), runs[-1])


def _begins(run: Sequence[SegmentName]) -> float:
    """In microseconds since the epoch; infinite if nobody can say."""
    try:
        return beginning_of(run)
    except (RecordingError, SegmentError, OSError):
        return inf
