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
    [AWAITED, time, resources]                                       why kinds that name levels of the topology are not
                                                                     known, by resource, where that has changed since
                                                                     the last group, or the segment began with any
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

import hashlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec

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
    AWAITED = 26


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
