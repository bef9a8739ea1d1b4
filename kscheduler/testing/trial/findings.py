"""What is compared, and what it means when it differs."""

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.framework.plugin_contract import contract_problems, misspellings
from kscheduler.framework.plugin_results import place_in_file
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.registry import Registry
from kscheduler.framework.traits import points_of
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.supervision.alarm import overrun_of
from kscheduler.testing.objects import make_node
from kscheduler.testing.trial.clusters import ASPECTS, Words, pods_with_words, random_nodes, random_pod, words_of
from kscheduler.testing.trial.reads import reads_of
from kscheduler.testing.trial.refreshing import try_refresh
from kscheduler.testing.trial.steps import reasons_not_to_try, take_steps
from kscheduler.testing.trial.tried_plugin import LONGEST_CALL_SECONDS, PluginResults, TriedPlugin

CLUSTERS: Final = 40
PODS_EACH: Final = 4
MAX_NODES: Final = 12
CLUSTERS_FOR_STEPS: Final = 5
_MAX_FAILURES: Final = 6
# Pods with words of the file for which a call is ended: fewer may be about one odd value.
_MAX_OVERRUNS: Final = 3
NODES_FOR_TIMING: Final = 1_000
# For 5,000 nodes: the time budget of a call.
SLOW_SECONDS: Final = 0.2


class Severity(Enum):
    """How bad a finding is."""

    WRONG = "wrong"
    """Decisions would be wrong, or would fail."""
    ADVICE = "advice"
    """It works, and could do better."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a plugin does."""

    severity: Severity
    kind: str
    """`contract`, `spelling`, `fails`, `impure`, `writes`, `other nodes`, `sign`, `unsigned`, `slow`, `fragile`,
    `refresh`, `permit`, `words`."""
    text: str
    ends: bool = False
    """Whether nothing more is asked: a call was beyond its time budget, and each further one would take as long."""


def _no_report(clusters: int) -> None:
    """It is not said how far the trial is."""


class Trial:
    """One plugin, tried on random clusters; the same seed tries the same ones."""

    def __init__(
        self,
        registry: Registry,
        name: str,
        args: Any,
        source: str,
        seed: int = 1,
        on_progress: Callable[[int], None] = _no_report,
    ) -> None:
        """`source`: the text of the plugin's file, whose words labels and annotations are made of.

        `on_progress`: called before each question about a random pod, with the clusters so far.
        """
        self._on_progress = on_progress
        self._registry, self._name, self._args = registry, name, args
        self._source = source
        self._reads = reads_of(source)
        self._seed = seed
        self._mattered = dict.fromkeys(ASPECTS, False)
        self._is_signed = False
        self.clusters = 0
        """How many clusters it was tried on so far."""

    def findings(self) -> list[Finding]:
        """What was found, the worst first, each kind once. Raises `PluginFailure` if the plugin cannot be built."""
        plugin = self._tried([make_node("node")], []).plugin
        broken = [Finding(Severity.WRONG, "contract", text) for text in contract_problems(plugin, self._name)]
        if broken:
            return broken  # the service refuses it: nothing else would be asked
        found: dict[str, Finding] = {}
        for finding in self._all():
            found.setdefault(finding.kind, finding)
            if finding.ends:
                break
        misspelt = [Finding(Severity.ADVICE, "spelling", text) for text in misspellings(plugin)]
        return sorted((*found.values(), *misspelt), key=lambda finding: finding.severity is Severity.ADVICE)

    def not_tried(self) -> dict[str, str]:
        """The extension points of the plugin that no finding is about, each with the reason."""
        return reasons_not_to_try(self._tried([make_node("node")], []).plugin)

    def _tried(self, nodes: list[Node], pods: list[Pod]) -> TriedPlugin:
        return TriedPlugin(self._registry, self._name, self._args, nodes, pods)

    def _all(self) -> Iterator[Finding]:
        chance = random.Random(self._seed)  # noqa: S311  no secret
        words = words_of(self._source, unexpected=False)
        yield from self._refreshed(words)
        yield from self._for_words(words)
        yield from self._steps(words)
        decides = True
        for number in range(CLUSTERS):
            nodes, pods = _cluster(chance, words)
            tried = self._tried(nodes, pods)
            decides = bool({point.method for point in points_of(tried.plugin)} & {"pre_filter", "filter", "score"})
            if not decides:
                return
            self.clusters += 1
            self._is_signed = tried.traits.is_signed
            where = f"cluster {number} of seed {self._seed}"
            for pod in (random_pod(chance, words, f"pod-{each}") for each in range(PODS_EACH)):
                self._on_progress(self.clusters)
                try:
                    yield from self._about(tried, pod, chance, words, where)
                except PluginFailure as failure:
                    yield Finding(Severity.WRONG, "fails", f"{failure} ({where})", overrun_of(failure) is not None)
                    return
        yield from self._unsigned()
        yield from self._slow(chance, words)
        yield from self._fragile(chance)

    def _refreshed(self, words: Words) -> Iterator[Finding]:
        """Its own data, fetched once."""
        chance = random.Random(self._seed)  # noqa: S311  a cluster of its own: the others stay as they are
        nodes, _ = _cluster(chance, words)
        pods = [random_pod(chance, words, f"pod-{number}") for number in range(PODS_EACH)]
        refreshed = try_refresh(self._registry, self._name, self._args, nodes, pods)
        if refreshed.wrong:
            yield Finding(Severity.WRONG, "refresh", refreshed.wrong)
        elif refreshed.advice:
            yield Finding(Severity.ADVICE, "refresh", refreshed.advice)

    def _steps(self, words: Words) -> Iterator[Finding]:
        """What is asked before a cycle and after it: PreEnqueue, QueueSort, Reserve, Permit, PreBindPreFlight."""
        chance = random.Random(self._seed)  # noqa: S311  clusters of its own: the others stay as they are
        for number in range(CLUSTERS_FOR_STEPS):
            tried = self._tried(*_cluster(chance, words))
            self.clusters += 1
            pod = random_pod(chance, words, f"pod-{number}")
            try:
                late = asyncio.run(take_steps(tried, pod))
            except PluginFailure as failure:
                where = f"step cluster {number} of seed {self._seed}"
                yield Finding(Severity.WRONG, "fails", f"{failure} ({where})", overrun_of(failure) is not None)
                return
            if late:
                yield Finding(Severity.ADVICE, "permit", late)
                return

    def _about(
        self, tried: TriedPlugin, pod: Pod, chance: random.Random, words: Words, where: str
    ) -> Iterator[Finding]:
        before = msgspec.json.encode((pod, [info.node for info in _infos(tried)]))
        first, again = tried.answers(pod), tried.answers(pod)
        if msgspec.json.encode((pod, [info.node for info in _infos(tried)])) != before:
            yield Finding(Severity.WRONG, "writes", f"it changes the pod or a node that it is asked about ({where})")
        if first != again:
            text = f"asked twice, it answers {_difference(first, again)} ({where})"
            yield Finding(Severity.WRONG, "impure", f"{text}: does it read a clock, chance or a file?")
            self._mattered = dict.fromkeys(ASPECTS, True)  # no advice to keep what changes by itself
            return
        some = [name for name in first if chance.random() < 0.5]
        alone = tried.answers(pod, some) if some else {}
        if tried.traits.is_keepable and any(alone[name] != first[name] for name in alone):
            text = (
                "what it says about a node depends on which other nodes it is asked about, and `depends_on` denies that"
            )
            yield Finding(Severity.WRONG, "other nodes", f"{text} ({where})")
        for aspect, change in ASPECTS.items():
            other = change(pod, chance, words)
            if tried.answers(other) != first:
                self._mattered[aspect] = True
                if self._is_signed and tried.signature(other) == tried.signature(pod):
                    text = f"its answers depend on the pod's {aspect}, which its `sign` leaves out"
                    yield Finding(Severity.WRONG, "sign", f"{text}: pods would get each other's answers ({where})")

    def _for_words(self, words: Words) -> Iterator[Finding]:
        """Pods with the labels, annotations and names that the file has: a single value may make all the difference."""
        chance = random.Random(self._seed)  # noqa: S311  clusters of its own: the others stay as they are
        tried = self._tried(random_nodes(chance, words, MAX_NODES), [])
        reads = self._reads.aspects & {"labels", "annotations", "name", "namespace"}
        failures: dict[str, str] = {}
        overruns = 0
        for aspect in sorted(reads):
            seen = None
            for what, pod in pods_with_words(words, aspect):
                self._on_progress(self.clusters)
                try:
                    answers = tried.answers(pod)
                except PluginFailure as failure:
                    overruns += overrun_of(failure) is not None
                    if not _is_odd_value(failure):  # that is `fragile`
                        failures.setdefault(_kind_of(failure), f"for {what} {failure}")
                    if overruns == _MAX_OVERRUNS or len(failures) == _MAX_FAILURES:
                        break
                    continue
                seen = answers if seen is None else seen
                self._mattered[aspect] |= answers != seen
            if overruns == _MAX_OVERRUNS:
                break
        if failures:
            yield Finding(Severity.WRONG, "words", "; ".join(failures.values()), overruns == _MAX_OVERRUNS)

    def _unsigned(self) -> Iterator[Finding]:
        if self._is_signed:
            return
        read = [aspect for aspect, mattered in self._mattered.items() if mattered or aspect in self._reads.aspects]
        if "name" in read or len(read) == len(ASPECTS):
            return
        read += self._reads.others
        trials = f"in {CLUSTERS * PODS_EACH} trials its answers"
        is_function = hasattr(self._tried([make_node("node")], []).plugin, "written_at")
        declared = f'@plugin("{self._name}", sign=lambda pod: {{}})'
        if read:
            trials += f" changed with the pod's {', '.join(read)} only"
            how = (
                f"`{declared.format('...')}`, with what it reads of that for `...`,"
                if is_function
                else "`def sign(self, pod)`, returning that,"
            )
        else:
            trials += " never changed with the pod"
            how = f"`{declared.format('None')}`" if is_function else "`def sign(self, pod): return None`"
        yield Finding(
            Severity.ADVICE,
            "unsigned",
            f"{trials}: {how} keeps its answers for all pods that are alike. Without it nothing is wrong: each pod "
            "asks about each node again, which costs time in a large cluster",
        )

    def _slow(self, chance: random.Random, words: Words) -> Iterator[Finding]:
        tried = self._tried(random_nodes(chance, words, NODES_FOR_TIMING), [])
        pod = random_pod(chance, words, "timed")
        try:
            seconds = min(_seconds(tried, pod) for _ in range(3)) * 5
        except PluginFailure as failure:
            yield Finding(Severity.WRONG, "fails", f"{failure} (a cluster of {NODES_FOR_TIMING} nodes)")
            return
        if seconds > PLUGIN_TIME.at_most(SLOW_SECONDS):
            yield Finding(
                Severity.WRONG, "slow", f"it would take {seconds:.2f} s for 5,000 nodes: nothing else runs then"
            )

    def _fragile(self, chance: random.Random) -> Iterator[Finding]:
        """Labels and annotations are written by people: what one of them costs should be the author's decision."""
        words = words_of(self._source, unexpected=True)
        for _ in range(CLUSTERS):
            nodes, pods = _cluster(chance, words)
            tried = self._tried(nodes, pods)
            try:
                tried.answers(random_pod(chance, words, "pod"))
            except PluginFailure as failure:
                costs = "nodes or pods their points" if "score" in _methods(tried) else "pods a node, or an attempt"
                text = f"a label or annotation that somebody has misspelt costs {costs}"
                yield Finding(Severity.ADVICE, "fragile", f"{text}: {failure}. {_caught(failure, tried)}")
                return


def _is_odd_value(failure: PluginFailure) -> bool:
    """Whether a value could not be read as a number, say."""
    return isinstance(_first_cause(failure), ValueError)


def _kind_of(failure: PluginFailure) -> str:
    cause = _first_cause(failure)
    return f"{type(cause).__name__} {place_in_file(failure)}"


def _first_cause(failure: PluginFailure) -> BaseException:
    cause: BaseException = failure
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return cause


def _methods(tried: TriedPlugin) -> set[str]:
    return {point.method for point in points_of(tried.plugin)}


def _caught(failure: PluginFailure, tried: TriedPlugin) -> str:
    """What to write to get over it."""
    cause = _first_cause(failure)
    kind = type(cause).__name__ if isinstance(cause, Exception) else "Exception"
    answer = "return 0" if hasattr(tried.plugin, "score") else "return None"
    return f"Put that line into `try:` with `except {kind}: {answer}` below it, or whatever you would answer then"


def _cluster(chance: random.Random, words: Words) -> tuple[list[Node], list[Pod]]:
    nodes = random_nodes(chance, words, chance.randint(1, MAX_NODES))
    names = [node.metadata.name for node in nodes]
    pods = [random_pod(chance, words, f"old-{number}", chance.choice(names)) for number in range(chance.randint(0, 20))]
    return nodes, pods


def _infos(tried: TriedPlugin) -> list[Any]:
    return [tried.cache.nodes.info(row) for row in tried.cache.nodes.rows().tolist()]


def _seconds(tried: TriedPlugin, pod: Pod) -> float:
    began = perf_counter()
    tried.answers(pod, budget_seconds=LONGEST_CALL_SECONDS)
    return perf_counter() - began


def _difference(first: PluginResults, again: PluginResults) -> str:
    name = next(name for name in first if first[name] != again.get(name))
    return f"{_result(first[name])} about {name}, then {_result(again.get(name, ('', None)))}"


def _result(answer: tuple[str, int | None]) -> str:
    reason, points = answer
    return repr(reason) if reason else "pass" if points is None else f"{points} points"
