"""Recorded outcome against replayed outcome, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler.recorder.entries import Entry, Op, Output


@dataclass(frozen=True, slots=True)
class DecisionDifference:
    """A decision that came out otherwise."""

    micros: int
    """When it was made, in microseconds since the epoch."""
    decision: int
    """Its number in the recording."""
    pod: str
    """Or the group, or the number of the attempt."""
    text: str
    because: str = ""
    """Who decides from data that are not in the recording; empty: nobody is known to."""


def subject_of(entry: Entry) -> str:
    """Whom an outcome is about."""
    op = entry[0]
    if op == Op.DECIDED:
        return str(entry[2])
    if op == Op.GROUP:
        return f"group {entry[1]}"
    if op == Op.LATER:
        return str(entry[2])
    return next((str(output[1]) for output in entry[-1]), f"attempt {entry[1]}")


def in_words(recorded: Entry, replayed: Entry) -> str:
    """What differs, most important first. Both are outcomes of the same step, as `entries.outcome` has them."""
    if recorded[0] == Op.DECIDED and recorded[3] != replayed[3]:
        return f"recorded as attempt {recorded[3]}, replayed as attempt {replayed[3]}"
    before, after = _ending(recorded), _ending(replayed)
    if before != after:
        return f"recorded: {before}; replayed: {after}"
    return "; ".join(_details(recorded[-1], replayed[-1])) or "other details differ"


def _ending(entry: Entry) -> str:
    outputs: Sequence[Any] = entry[-1]
    nodes = _nodes(entry)
    if nodes:
        return nodes
    for output in outputs:
        if output[0] == Output.FAILED:
            return f"no node ({output[2]})"
    return "it needed no node" if outputs else "it waits"


def _nodes(entry: Entry) -> str:
    if entry[0] == Op.GROUP:
        return ", ".join(f"{key} on {node}" for _, key, node in entry[2])
    if entry[0] == Op.DECIDED:
        return f"node {entry[5]}" if entry[5] else ""
    return f"node {entry[4]}" if entry[0] == Op.LATER and entry[4] else ""


def _details(recorded: Sequence[Any], replayed: Sequence[Any]) -> Iterator[str]:
    before, after = _victims(recorded), _victims(replayed)
    if before != after:
        yield f"victims recorded: {before or 'none'}; replayed: {after or 'none'}"
    for one, other in zip(recorded, replayed, strict=False):
        if one[0] == other[0] == Output.FAILED and list(one) != list(other):
            names = ("pod", "message", "nominated node", "plugins", "plugins that wait", "fault", "is an error")
            for name, was, is_now in zip(names, one[1:], other[1:], strict=True):
                if was != is_now:
                    yield f"{name} recorded: {_plain(was)}; replayed: {_plain(is_now)}"


def _victims(outputs: Sequence[Any]) -> str:
    found = [output for output in outputs if output[0] == Output.PREEMPTS]
    return "; ".join(f"{', '.join(victims)} on {node}" for _, _, node, victims in found)


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)
