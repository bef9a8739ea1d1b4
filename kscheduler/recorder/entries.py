"""The entries of a recording: short lists, whose first item says what they are.

    entry, as it is read                                             what it is
    [SNAPSHOT, part, ...]                                            a part of the state at the beginning of a segment
    [OBJECT, time, kind, verb, key, object]                          a change of an object, as the handlers hear it
    [DECIDED, time, number, pod, attempts, how, node, outputs]       a pod was popped and decided about
    [GROUP, time, name, [[number, pod, node], ...], outputs]         a pod group was
    [GROUP_WAITS, time, name]                                        a pod group was popped, and extenders are asked
    [ANSWERED, time, name, answers]                                  they have said this of its members: GROUP follows
    [LATER, time, number, pod, has node, node, outputs]              a pod whose decision had to wait is decided about
    [LEAVES, time, number]  [BOUND, time, number]                    steps after the decision
    [RELEASED, time, uid]                                            a pod no longer waits for Permit
    [ABANDONED, time, number, code, reasons, plugin, fault, outputs] a step after the decision has failed
    [GIVEN_UP, time, number, text, outputs]                          an exception, before there was a node
    [BACKOFF, time]  [NET, time]  [BEGAN, time]                      the queue was flushed; scheduling began
    [EVICTION, time, number, step, subject, keys]                    what a preemption's task has come to
    [APPLIED, time, configuration, quarantined]                      a reload
    [TOUCHED, time, nodes, plugin]                                   a plugin has other data about these nodes
    [CLAIM, time, object]  [REPAIRED, time, what]                    an API answer; cache or queue were corrected
    [RESERVED, time, number, claims, bindings, provisions]           what a pod with LATER has taken besides its node
    [STAYS_PENDING, time, uid]                                       ABANDONED follows; a claim is still being written
    [COSTLY, time, seconds]                                          the decision before it used up so much of the time
                                                                     that pods have that cost much
    [NOT_PENDING, time, uid, all]                                    what was chosen for a claim is no longer pending
    [LOST, entries]                                                  so many entries could not be kept: a gap
    [DIGEST, decisions, digest]                                      over all outcomes so far; ends each batch

Times are microseconds since the epoch. In the file, entries have none: where a step begins, a number stands between
them, the microseconds since the step before; the snapshot has the first time. An attempt is named by a number of its
own, which begins again with each process. Of a pod or a node that has changed, OBJECT has the parts that differ
(`packing`); where an object is new, the key is empty, as the object has it. Outputs are what the step said: [FAILED,
pod, message, nominated node, plugins, pending, fault, is error], [LET_GO, pod], [PREEMPTS, preemptor, node, victims],
[CONTINUES_IN_BACKGROUND, pod, node].
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.cluster.claim_writing import ClaimRules, Deallocation, PodReservation, ReservedClaim
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.status import Code, Fault, Status
from kscheduler.plugins.storage.volume_binding.claims import Undertaking
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt_events import Decided
from kscheduler.scheduling.extenders.extender_results import ExtenderPoints, ExtenderResults
from kscheduler.state.cache import Cache

Entry = Sequence[Any]
# Of a batch: an entry without its time, or the microseconds since the step before.
Item = Entry | int
_encode = msgspec.msgpack.Encoder().encode


class Op(IntEnum):
    """What an entry is."""

    SNAPSHOT = 0
    OBJECT = 1
    DECIDED = 2
    GROUP = 3
    LATER = 4
    LEAVES = 5
    BOUND = 6
    RELEASED = 7
    ABANDONED = 8
    GIVEN_UP = 9
    BACKOFF = 10
    NET = 11
    """The safety net: the pods that are unschedulable for long were moved back, whatever events came."""
    BEGAN = 12
    EVICTION = 13
    APPLIED = 14
    TOUCHED = 15
    CLAIM = 16
    REPAIRED = 17
    LOST = 18
    DIGEST = 19
    GROUP_WAITS = 20
    ANSWERED = 21
    NOT_PENDING = 22
    STAYS_PENDING = 23
    RESERVED = 24
    COSTLY = 25


class Verb(IntEnum):
    """What happened to an object."""

    ADDED = 0
    LISTED = 1
    """Added with the first list."""
    UPDATED = 2
    DELETED = 3


class DecisionEnd(IntEnum):
    """How a decision ended."""

    OVER = 0
    """The attempt is over; the outputs say why."""
    NODE = 1
    AWAITED = 2
    """Extenders are asked, or a search goes on: a LATER follows, unless the pod goes."""
    IN_LINE = 3
    """It stands in line for extenders, and is popped no second time."""


class Output(IntEnum):
    """What a step said."""

    FAILED = 0
    LET_GO = 1
    PREEMPTS = 2
    CONTINUES_IN_BACKGROUND = 3


DECISIONS: Final = frozenset((Op.DECIDED, Op.GROUP, Op.LATER))
# Entries that a digest covers: what the scheduler said.
OUTCOMES: Final = frozenset((*DECISIONS, Op.ABANDONED, Op.GIVEN_UP))
UNTIMED: Final = frozenset((Op.SNAPSHOT, Op.LOST, Op.DIGEST))
_TIME: Final = 1
# Where the snapshot's first entry, the configuration, has the time.
CONFIGURATION_TIME: Final = 3


def array_of(batches: Sequence[bytes]) -> bytes:
    """The msgpack array of values that are encoded already: the data of a block are its batches."""
    return b"".join((b"\xdd", len(batches).to_bytes(4, "big"), *batches))


def batch_of(items: list[Item], outcomes: Sequence[Entry], digest: "Digest") -> bytes:
    """A batch as it stands in a block. It ends with the digest, which covers its outcomes, too."""
    digest.cover(outcomes)
    items.append((int(Op.DIGEST), digest.decisions, digest.value))
    return _encode(items)


class EntryReader:
    """Gives entries their times."""

    def __init__(self) -> None:
        self._micros = 0

    def entries(self, batch: Sequence[Item]) -> Iterator[Entry]:
        """Of the next batch. Raises `ValueError`, `IndexError` or `TypeError` for what no recorder has written."""
        for item in batch:
            if isinstance(item, int):
                self._micros += item
            elif item[0] not in UNTIMED:
                yield [item[0], self._micros, *item[1:]]
            else:
                if item[0] == Op.SNAPSHOT and item[1] == "configuration":
                    self._micros = int(item[CONFIGURATION_TIME])
                yield item


def outcome(entry: Entry) -> Entry:
    """An entry without its time: what is compared."""
    return (entry[0], *entry[_TIME + 1 :])


class Digest:
    """A running hash over outcomes. Equal on every machine: it covers msgpack, whose encoding is fixed here."""

    def __init__(self, before: bytes = b"", decisions: int = 0) -> None:
        self.value = before
        self.decisions = decisions
        """How many are covered."""

    @staticmethod
    def of(outcome: Entry) -> bytes:
        """One outcome, as the digest covers it: equal bytes are equal outcomes."""
        return _encode(outcome)

    def cover(self, outcomes: Sequence[Entry]) -> bytes:
        """Cover the outcomes of a batch, without their times. Returns the value over all so far."""
        if outcomes:
            self.value = hashlib.blake2b(self.value + _encode(outcomes), digest_size=16).digest()
            self.decisions += sum(outcome[0] in DECISIONS for outcome in outcomes)
        return self.value


# What extenders have said about a member of a pod group, as plain values in an entry, and back.

# [pod, is about nodes, asked, left, [[node, status], ...], [[extender, weight, [[node, points], ...]], ...], status,
# who objects]; a status is [code, reasons, plugin, fault].
PackedAnswers = Sequence[Any]


def pack_answers(known: Mapping[str, ExtenderResults]) -> list[PackedAnswers]:
    """By key of the member."""
    return [
        (
            key,
            answers.is_about_nodes,
            sorted(answers.asked_nodes),
            sorted(answers.left),
            [(node, _packed(status)) for node, status in answers.rejected.items()],
            [(each.extender, each.weight, list(each.by_node.items())) for each in answers.points],
            _packed(answers.status),
            answers.objectors,
        )
        for key, answers in known.items()
    ]


def unpack_answers(packed: Sequence[PackedAnswers]) -> dict[str, ExtenderResults]:
    """Raises `ValueError` or `TypeError` for what `pack_answers` has not written."""
    found = {}
    for key, is_about_nodes, asked_nodes, left, rejected, points, status, objectors in packed:
        found[key] = ExtenderResults(
            frozenset(asked_nodes),
            frozenset(left),
            {node: _status(each) for node, each in rejected},
            tuple(ExtenderPoints(extender, weight, dict(by_node)) for extender, weight, by_node in points),
            _status(status),
            is_about_nodes,
            failed_by=", ".join(objectors),
        )
    return found


def _packed(status: Status) -> tuple[int, Sequence[str], str, str]:
    return int(status.code), status.reasons, status.plugin, status.fault.value


def _status(packed: Sequence[Any]) -> Status:
    code, reasons, plugin, fault = packed
    return Status(Code(code), tuple(reasons), plugin, Fault(fault))


# What an attempt has reserved besides its node: devices that are pending, volumes and claims that are assumed.
#
# A decision that is made again in a replay reserves the same by itself. One that is only followed (extenders, a long
# search) does not, nor does an attempt that a snapshot puts back: there the recording says what was reserved. Without
# it the next pod would be given the same devices or volumes again.


@dataclass(frozen=True, slots=True)
class Reservations:
    """Of one attempt."""

    claims: tuple[tuple[str, ResourceClaim], ...] = ()
    """The UID under which the devices are pending, and the claim with them."""
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    """Volumes as they are assumed, each with its claim."""
    provisions: tuple[PersistentVolumeClaim, ...] = ()
    """Claims as they are assumed."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but the node."""
        return not (self.claims or self.bindings or self.provisions)


def reserved_by(attempt: Decided) -> Reservations:
    """What the attempt has reserved and not given back."""
    if not isinstance(attempt, Attempt):
        return Reservations()
    devices, volumes = attempt.record.state.find(PodReservation), attempt.record.state.find(Undertaking)
    return Reservations(
        () if devices is None else tuple(_pending(devices.claims)),
        () if volumes is None else tuple(volumes.bindings),
        () if volumes is None else tuple(volumes.provisions),
    )


def _pending(claims: Iterable[ReservedClaim]) -> Iterable[tuple[str, ResourceClaim]]:
    for each in claims:
        if each.pending_uid:
            status = msgspec.structs.replace(each.claim.status, allocation=each.allocation)
            yield each.pending_uid, msgspec.structs.replace(each.claim, status=status)


def hold(attempt: Attempt, reserved: Reservations) -> None:
    """Let the attempt give this back when it fails. Nothing is taken: `take` does that."""
    pod, node_name, state = attempt.queued.pod, attempt.node_name, attempt.record.state
    if reserved.claims:
        claims = [ReservedClaim(claim, claim.status.allocation, uid) for uid, claim in reserved.claims]
        state.write(PodReservation(pod, node_name, claims))
    if reserved.bindings or reserved.provisions:
        state.write(Undertaking(pod, node_name, list(reserved.bindings), list(reserved.provisions)))


def take(cache: Cache, reserved: Reservations) -> None:
    """Let decisions see it."""
    for uid, claim in reserved.claims:
        cache.devices.claims.signal_pending(uid, claim)
    with contextlib.suppress(ValueError):  # the watch was faster
        for volume, _ in reserved.bindings:
            cache.volumes.assume_volume(volume)
        for claim_of_volume in reserved.provisions:
            cache.volumes.assume_claim(claim_of_volume)


class RecordedClaimWriter:
    """Gives back what was pending, when the recorded scheduler did. Implements `claim_writing.ClaimWriter`.

    A write that is under way when its pod is given up keeps its devices until it has ended: then the recording says of
    them first that they stay pending, and later when they no longer are.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._stay: set[str] = set()
        """UIDs of claims that the attempt which is about to be given up does not give back yet."""

    def stays_pending(self, uid: str) -> None:
        """The claim's write goes on."""
        self._stay.add(uid)

    def no_longer_pending(self, uid: str, *, force: bool) -> None:
        """The claim's write has ended."""
        self._claims.remove_pending(uid, force=force)

    async def pre_bind(self, _reservation: PodReservation, _rules: ClaimRules) -> Status:
        """Raises `RuntimeError`: nothing is written in a replay."""
        raise RuntimeError("a replay writes no claims")

    def unreserve(self, reservation: PodReservation) -> None:
        """What was written stays, until the recording shows what became of it."""
        for reserved in reservation.claims:
            uid, reserved.pending_uid = reserved.pending_uid, ""
            if uid and uid not in self._stay:
                self._claims.remove_pending(uid, force=False)
        self._stay.clear()

    def free(self, _deallocation: Deallocation) -> None:
        """The recording shows what became of it."""
