"""What a recording says of one pod: read from its entries, nothing is decided again.

So it needs neither the configuration nor the plugins that decided, and tells also what a replay could not go on after.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from kscheduler.recorder.blocks import SegmentError
from kscheduler.recorder.entries import OUTCOMES, UNTIMED, DecisionEnd, Entry, Op, Output
from kscheduler.recorder.segments import SegmentName, SegmentReader

_QUERIED, _SEARCHED = "extenders are asked", "a search for devices goes on"
_EITHER = "extenders are asked, or a search goes on"


@dataclass(frozen=True, slots=True)
class PodDecision:
    """An entry about the pod."""

    micros: int
    """When, in microseconds since the epoch."""
    pod: str
    attempt: int | None
    """`None`: the entry does not say, as it is about a pod group or about what came after a decision."""
    node: str = ""
    text: str = ""
    """Why it has no node; or what was going on."""
    plugins: tuple[str, ...] = ()
    """Who rejected it."""
    victims: tuple[str, ...] = ()
    """Who is evicted for it, on `victims_on`."""
    victims_on: str = ""
    group: str = ""
    """The pod group that it was decided about with."""


@dataclass(slots=True)
class PodDecisions:
    """The decisions about the pods that were asked for, from the segments read so far."""

    pod: str
    """`namespace/name`, or a name in any namespace."""
    until: int | None = None
    """Microseconds since the epoch: later entries are not looked at."""
    found: list[PodDecision] = field(default_factory=list)
    first: int = 0
    last: int = 0
    """The times that are covered."""
    is_over: bool = False
    """The time of `until` has come."""
    problems: list[str] = field(default_factory=list)
    """Segments that end too early, or cannot be read."""
    _awaited: str = _EITHER
    """What a decision waits for: the entry does not say, the configuration does unless its extenders want some pods."""
    _pod_of: dict[int, str] = field(default_factory=dict)
    """By number of an attempt of this run: later entries name the number alone."""

    def read(self, segments: Iterable[SegmentName]) -> None:
        """The segments of a run. Raises `OSError`."""
        self._pod_of.clear()
        for name in segments:
            reader = SegmentReader(name.path)
            try:
                for micros, entry in self._timed(reader):
                    if self.until is not None and micros > self.until:
                        self.is_over = True
                        return
                    self.first, self.last = self.first or micros, max(self.last, micros)
                    if entry[0] in OUTCOMES:
                        self.found += self._decisions(micros, entry)
            except SegmentError as problem:
                self.problems.append(str(problem))
            if reader.stopped:
                self.problems.append(f"{name.path.name}: {reader.stopped}")

    def _timed(self, reader: SegmentReader) -> Iterator[tuple[int, Entry]]:
        """Entries with their time. Those of a snapshot are left out."""
        for block in reader.blocks():
            for entry in block:
                if (entry[0] == Op.SNAPSHOT and entry[1] == "configuration") or entry[0] == Op.APPLIED:
                    self._awaited = _awaited_under(entry[2])
                if entry[0] not in UNTIMED:
                    yield entry[1], entry

    def _is_queried(self, key: str) -> bool:
        return key == self.pod or ("/" not in self.pod and key.partition("/")[2] == self.pod)

    def _decisions(self, micros: int, entry: Entry) -> Iterator[PodDecision]:
        op, outputs = entry[0], entry[-1]
        if op == Op.GROUP:
            yield from self._of_group(micros, entry)
            return
        number, attempt, node, text = int(entry[2]), None, "", ""
        if op == Op.DECIDED:
            _, _, _, key, attempt, how, node, _ = entry
            text = (
                ""
                if node
                else {DecisionEnd.AWAITED: self._awaited, DecisionEnd.IN_LINE: "it stands in line"}.get(how, "")
            )
            self._pod_of[number] = key
        elif op == Op.LATER:
            _, _, _, key, _, node, _ = entry
        else:  # a step after the decision has failed, or an exception before there was a node
            key = self._pod_of.get(number) or next((output[1] for output in outputs if output[0] == Output.FAILED), "")
            text = ", ".join(entry[4]) if op == Op.ABANDONED else str(entry[3])
        if self._is_queried(key):
            yield _decision(micros, key, attempt, node, text, outputs)

    def _of_group(self, micros: int, entry: Entry) -> Iterator[PodDecision]:
        _, _, group, placed, outputs = entry
        for number, key, node in placed:
            self._pod_of[number] = key
            if self._is_queried(key):
                yield PodDecision(micros, key, None, node, group=group)
        with_node = {key for _, key, _ in placed}
        for key in dict.fromkeys(output[1] for output in outputs if output[0] == Output.FAILED):
            if key not in with_node and self._is_queried(key):
                yield _decision(micros, key, None, "", "", outputs, group)


def _awaited_under(description: Mapping[str, Any]) -> str:
    """What decisions wait for under a recorded configuration."""
    extenders = (yaml.safe_load(description["configuration"]) or {}).get("extenders")
    if not extenders:
        return _SEARCHED
    return _EITHER if any(each.get("managedResources") for each in extenders) else _QUERIED


def _decision(
    micros: int,
    key: str,
    attempt: int | None,
    node: str,
    text: str,
    outputs: Sequence[Sequence[Any]],
    group: str = "",
) -> PodDecision:
    failed = next((output for output in outputs if output[0] == Output.FAILED and output[1] == key), None)
    plugins: tuple[str, ...] = ()
    if failed is not None:
        text, plugins = str(failed[2]), tuple(sorted({*failed[4], *failed[5]}))
    preempts = next((output for output in outputs if output[0] == Output.PREEMPTS and output[1] == key), None)
    if preempts is None:
        return PodDecision(micros, key, attempt, node, text, plugins, group=group)
    victims = tuple(map(str, preempts[3]))
    return PodDecision(micros, key, attempt, node, text, plugins, victims, str(preempts[2]), group)
