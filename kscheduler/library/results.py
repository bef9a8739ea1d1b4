"""Parts of what the questions return: rows, text and HTML over the typed answers of simulate and explain."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

import msgspec

from kscheduler.compact.as_text import compaction_text
from kscheduler.compact.compaction_result import Compaction
from kscheduler.explain.answer import PodExplanation
from kscheduler.explain.explanation import Explanation
from kscheduler.explain.group_answer import PodGroupExplanation
from kscheduler.library.node_rows import FragmentationRow, fragmentation_rows
from kscheduler.library.table import Table
from kscheduler.simulate.simulation_result import Simulation
from kscheduler.text import nodes, printable, wrapped
from kscheduler.text import pods as pods_text

WIDTH = 100


class PodResult(msgspec.Struct, frozen=True):
    """What has become of a pod that looked for a node."""

    pod: str
    """namespace/name."""
    node: str | None
    """`None`: it is pending."""
    score: int | None
    """The node's points, of all score plugins; `None`: it is pending, or no other node fitted and none was scored."""
    origin: str
    """`pending`: it waited in the cluster; `new`: it was asked about; else the pod that it replaces."""
    reason: str
    """Why it is pending, as its condition would say; empty: it is placed."""
    nominated_node: str | None = None
    """The node where pods are evicted for it, while it is pending."""


class ExplainResult:
    """Where a pod goes and why, or the pod group that it waits with: printed as `kscheduler explain` prints it."""

    def __init__(self, explanation: Explanation, rules: str) -> None:
        self._explanation = explanation
        self.notes = tuple(explanation.notes)
        """What could not be read or had to be presumed."""
        self.rules = rules
        """By the rules of which kube-scheduler was decided."""

    @property
    def answer(self) -> PodExplanation | PodGroupExplanation:
        """The typed answer: what `kscheduler explain -o json` prints."""
        return self._explanation.answer

    def to_dict(self) -> dict[str, Any]:
        """The answer as `kscheduler explain -o json` has it: keys in camelCase, and only what JSON has."""
        tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.answer))
        return tree

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        text = "\n".join(line.rstrip() for line in self._explanation.as_text().splitlines())
        return "\n".join([text, *notes_as_text(self.notes), "", *wrapped(printable(self.rules), WIDTH)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class ProfileNodes(msgspec.Struct, frozen=True):
    """On how few nodes a profile reschedules all pods."""

    profile: str
    fewest: int | None
    """Of all trials; `None`: the pods do not even fit on all nodes."""
    median: int | None
    percentile_90: int | None
    """Nine of ten trials needed no more."""
    nodes: int
    """How many there are."""


class CompactResult:
    """On how few nodes the pods would run, by profile, and how much of what is free today nobody can use."""

    def __init__(self, answer: Compaction, rules: str, failures: Iterable[str] = ()) -> None:
        """`failures`: a sentence for each plugin that failed."""
        self.answer = answer
        """The typed answer: what `kscheduler compact -o json` prints."""
        self.notes = tuple(dict.fromkeys([*answer.notes, *failures]))
        """What could not be read or had to be presumed, and plugins that failed."""
        self.rules = rules
        """By the rules of which kube-scheduler was decided."""

    @property
    def profiles(self) -> Table[ProfileNodes]:
        """A row for each profile."""
        nodes = self.answer.nodes
        return Table(
            ProfileNodes,
            (
                ProfileNodes(each.profile, each.fewest, each.median, each.percentile_90, nodes)
                if each.trials
                else ProfileNodes(each.profile, None, None, None, nodes)
                for each in self.answer.profiles
            ),
        )

    @property
    def fragmentation(self) -> Table[FragmentationRow]:
        """By resource what is free today, and how much of it no pod like those that run or wait could use."""
        return Table(FragmentationRow, fragmentation_rows(self.answer.fragments))

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dict for each profile."""
        return self.profiles.to_dicts()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        notes = notes_as_text(self.notes)
        return "\n".join([compaction_text(self.answer), *notes, "", *wrapped(printable(self.rules), WIDTH)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def notes_as_text(notes: Sequence[str]) -> Iterator[str]:
    """Lines, with an empty one before them."""
    if notes:
        yield ""
        for note in notes:
            yield from wrapped(f"note: {printable(note)}", WIDTH)


def notes_in_html(notes: Sequence[str]) -> str:
    """A paragraph each."""
    return "".join(f"<p>note: {escape(printable(note))}</p>" for note in notes)


def summary_of(answer: Simulation) -> str:
    """`9 pods placed on 2 nodes, 1 pending`."""
    on = f" on {nodes(len({each.node for each in answer.placed}))}" if answer.placed else ""
    gone = f", {len(answer.evicted)} evicted" if answer.evicted else ""
    return f"{pods_text(len(answer.placed))} placed{on}, {len(answer.waiting)} pending{gone}"
