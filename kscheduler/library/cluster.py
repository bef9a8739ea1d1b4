"""A cluster as a value: nodes, pods and what else the rules read, and who schedules.

A `Cluster` never changes. What would change it returns a result whose `cluster` is the cluster then, or another
`Cluster`; all of them share the objects that are the same. So the cells of a notebook can be run again in any order,
and a "what if" leaves its beginning as it was.

All methods are synchronous, also where an event loop runs already, as in a notebook (`aio.synchronous`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from os import PathLike, fspath
from typing import Any, Final

from kscheduler.aio.synchronous import run_synchronously
from kscheduler.compact.compaction import TRIALS, check_trials, compact
from kscheduler.compact.profiles import READY, profiles_of, ready_profiles
from kscheduler.explain.cluster_answers import NodeUse
from kscheduler.explain.explanation import answered
from kscheduler.explain.node_use import node_uses
from kscheduler.library.cluster_error import ClusterError, raising_cluster_error
from kscheduler.library.configured import Configuration, GivenPlugin, Schedulers, given_plugins
from kscheduler.library.given import Given, given_objects
from kscheduler.library.live import live_input
from kscheduler.library.node_rows import NodeRow, NodeUtilisation, PodRow, node_rows, pod_rows, utilisation_rows
from kscheduler.library.questions import (
    failures_in,
    play,
    query_about_given,
    refuse_unknown_node,
    requested_changes,
    with_objects,
)
from kscheduler.library.results import (
    WIDTH,
    CompactResult,
    ExplainResult,
    PodResult,
    notes_as_text,
    notes_in_html,
    summary_of,
)
from kscheduler.library.table import Table
from kscheduler.scenario.cluster_input import ClusterInput, input_from_files
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import served_cluster
from kscheduler.simulate.as_text import simulation_text
from kscheduler.simulate.requested_changes import RequestedChanges
from kscheduler.simulate.simulation_result import Capacity, Drained, Evicted, Simulation
from kscheduler.telemetry.logs.kept import warnings_kept
from kscheduler.text import nodes as nodes_text
from kscheduler.text import pods as pods_text
from kscheduler.text import printable, wrapped

# Names of nodes, or one of them.
Names = str | Iterable[str]

_WHERE: Final = "the cluster"


class Cluster:
    """Nodes, pods, and how they are scheduled. Made by `of`, `from_files` or `from_kubeconfig`; never changes."""

    def __init__(self, given: ClusterInput, schedulers: Schedulers) -> None:
        self._input = given
        self._schedulers = schedulers

    @classmethod
    def of(
        cls,
        nodes: Given = (),
        pods: Given = (),
        others: Given = (),
        *,
        configuration: Configuration = None,
        plugins: Sequence[GivenPlugin] = (),
        version: str = "",
        feature_gates: Mapping[str, bool] | None = None,
    ) -> "Cluster":
        """A cluster of these objects. Pods with `spec.nodeName` are on that node; others wait.

        Each of `nodes`, `pods` and `others` (disruption budgets, volumes, claims to devices, pod groups and so on) is a
        dict as `kubectl get -o json` prints it, a List, a text in YAML or JSON, the name of a file, an object of the
        `kubernetes` client, what `make_node` and `make_pod` return, or a list of them.

        `configuration`: a KubeSchedulerConfiguration as a path, a text or a dict. Without one pods of every scheduler
        are decided by the default plugins. `plugins`: files, modules, functions under `@plugin`, classes, or names of
        policies; each is enabled in all profiles. `version`: of the kube-scheduler by whose rules is decided, `1.37`.
        `feature_gates`: by kube-scheduler's names.

        Raises `ClusterError`, which names what cannot be read.
        """
        schedulers = Schedulers(configuration, given_plugins(plugins), version, feature_gates or {})
        with raising_cluster_error():
            empty = ClusterInput(ClusterObjects(), schedulers.serving(), _WHERE, [])
            return cls(with_objects(empty, given_objects(nodes=nodes, pods=pods, others=others)), schedulers)

    @classmethod
    def from_files(
        cls,
        *files: str | PathLike[str],
        configuration: Configuration = None,
        plugins: Sequence[GivenPlugin] = (),
        version: str = "",
        feature_gates: Mapping[str, bool] | None = None,
    ) -> "Cluster":
        """A cluster that kubectl has printed into files, or that somebody has written: as `simulate --from` reads it.

        A name may be a folder or a pattern. What cannot be read is left out, and `notes` say so. The other parameters
        are those of `of`. Raises `ClusterError`.
        """
        schedulers = Schedulers(configuration, given_plugins(plugins), version, feature_gates or {})
        with raising_cluster_error():
            if not files or not all(_is_name(each) for each in files):
                raise ClusterError("from_files: give the names of files, one after the other: from_files(*names)")
            found = input_from_files([fspath(each) for each in files], schedulers.serving())
            found.leave_out_unreadable()
            return cls(found, schedulers)

    @classmethod
    def from_kubeconfig(
        cls,
        kubeconfig: str | PathLike[str] = "",
        *,
        context: str = "",
        configuration: Configuration = None,
        plugins: Sequence[GivenPlugin] = (),
        version: str = "",
        feature_gates: Mapping[str, bool] | None = None,
    ) -> "Cluster":
        """A live cluster, read once; nothing is written. It does not follow what happens there later.

        `kubeconfig`, `context`: by default as kubectl finds them. The rules are those of the API server's version,
        unless `version` names another. What may not be read is left out, and `notes` say so. The other parameters are
        those of `of`. Raises `ClusterError`.
        """
        schedulers = Schedulers(configuration, given_plugins(plugins), version, feature_gates or {})
        with raising_cluster_error():
            return cls(run_synchronously(live_input(kubeconfig, context, schedulers)), schedulers)

    def add(self, *objects: Given) -> "Cluster":
        """The cluster with further objects, also in place of others of their name. Raises `ClusterError`."""
        with raising_cluster_error():
            return Cluster(with_objects(self._input, given_objects(objects=objects)), self._schedulers)

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Table[NodeRow]:
        """The nodes by name, with what each has and what pods request of it."""
        return Table(NodeRow, node_rows(self._input.objects.nodes, self._uses))

    @property
    def pods(self) -> Table[PodRow]:
        """All pods, with their nodes."""
        return Table(PodRow, pod_rows(self._input.objects.pods))

    def utilisation(self) -> Table[NodeUtilisation]:
        """For each node and resource what is allocatable, requested, and the share; devices by class.

        A row for each pair, as data frames like it: `pivot(index="node", columns="resource", values="share")`.
        """
        return Table(NodeUtilisation, utilisation_rows(self._uses))

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read or had to be presumed, a sentence each."""
        return tuple(dict.fromkeys(self._input.notes))

    @property
    def rules(self) -> str:
        """By the rules of which kube-scheduler is decided."""
        return self._input.served.rules

    @cached_property
    def _uses(self) -> tuple[NodeUse, ...]:
        served = self._input.served
        with raising_cluster_error():
            held = served_cluster(self._input.objects, served, self._input.where)
            return node_uses(held.cache, held.profiles, (), served.config.gates.version).nodes

    # --- questions ----------------------------------------------------------------------------------------------------

    def schedule(self, pods: Given = (), *, namespace: str = "default") -> "ScheduleResult":
        """Where the pods that wait in the cluster go, and after them these new ones.

        As the service decides: in the order of its queue, by priority first, with preemption, backoff and pod groups.
        `pods`: as in `of`, also workloads that make pods (a Deployment), and what comes with them. `namespace`: of
        manifests that name none. The result's `cluster` has the pods on their nodes. Raises `ClusterError`.
        """
        with raising_cluster_error():
            changes = RequestedChanges(namespace=namespace)
            found = play(self._input, given_objects(pods=pods), changes, self._input.served)
            return ScheduleResult(found.answer, Cluster(found.after, self._schedulers), found.notes)

    def simulate(
        self,
        pods: Given = (),
        *,
        replicas: int | None = None,
        namespace: str = "default",
        add_nodes: Mapping[str, int] | None = None,
        remove_nodes: Names = (),
        cordon: Names = (),
        drain: Names = (),
        labels: Mapping[str, Mapping[str, str | None]] | None = None,
        taints: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        configuration: Configuration = None,
        capacity: bool = False,
    ) -> "SimulationResult":
        """What would happen with changes, as `kscheduler simulate` plays it: docs/simulate.md.

        `pods`: new pods, as in `schedule`. `replicas`: this many of each of them. `add_nodes`: by name of a node how
        many more like it. `remove_nodes`, `cordon`, `drain`: names of nodes. `labels`: by node, `None` removes a label.
        `taints`: by node a list of `{"key", "value", "effect"}`; `"remove": True` removes one. `configuration`: another
        one than the cluster's. `capacity`: count how many more pods like the first new one fit in the end.

        The result's `cluster` is the cluster then, under the configuration that decided. Raises `ClusterError`.
        """
        schedulers = self._schedulers
        if configuration is not None:
            schedulers = replace(schedulers, configuration=configuration)
        asked = {
            "replicas": replicas,
            "namespace": namespace,
            "addNodes": [{"count": count, "like": node} for node, count in _by_node("add_nodes", add_nodes)],
            "removeNodes": _names(remove_nodes),
            "cordon": _names(cordon),
            "drain": _names(drain),
            "labels": [{"node": node, "labels": each} for node, each in _by_node("labels", labels)],
            "taints": _taints(taints),
            "capacity": capacity,
        }
        with raising_cluster_error():
            given = given_objects(pods=pods)
            if replicas is not None and not (given.documents or given.pods):
                raise ClusterError("replicas: how many there are of each of the new `pods`: give one")
            served = self._input.served if configuration is None else schedulers.serving()
            changes = requested_changes(asked, self._input.objects.nodes)
            found = play(self._input, given, changes, served)
            return SimulationResult(found.answer, Cluster(found.after, schedulers), found.notes)

    def drain(self, *nodes: Names) -> "SimulationResult":
        """What would happen with the pods of these nodes, as `kubectl drain --ignore-daemonsets` evicts them.

        `nodes`: names, or lists of them. Disruption budgets are kept; `drains` say which pods they keep. Raises
        `ClusterError`.
        """
        names = [name for each in nodes for name in _names(each)]
        if not names:
            raise ClusterError("drain: give the names of nodes: drain('node-1', 'node-2')")
        return self.simulate(drain=names)

    def explain(
        self,
        pod: Given | PodResult | PodRow,
        *,
        namespace: str = "default",
        against: str = "",
        suggestions: bool = True,
    ) -> ExplainResult:
        """Where a pod goes, who rejected which node and why, and the smallest change that would make it fit.

        `pod`: the name of one in the cluster (`NAMESPACE/POD`, or `POD` in `namespace`; `podgroup/NAME` is a pod group
        of `namespace`), or a new one, as in `of`. One that waits with its pod group, and new ones that name a group,
        are answered with the group. `against`: a node to compare with the pod's own.
        `suggestions`: whether to look for changes. Nothing changes. Raises `ClusterError`.
        """
        with raising_cluster_error():
            given = pod.pod if isinstance(pod, PodResult | PodRow) else pod
            query = query_about_given(self._input, given, namespace)
            if against:
                refuse_unknown_node(against, self._input.objects.nodes, "against")
            with warnings_kept():  # the decision has what plugins failed with
                decision = query.decide()
                explanation = answered(query, decision, against_node=against, with_suggestions=suggestions)
            return ExplainResult(explanation, self.rules)

    def compact(self, profiles: Names = (), *, trials: int = TRIALS, seed: int = 1) -> CompactResult:
        """On how few nodes the pods would run if all were rescheduled, by profile: as `kscheduler compact` tells it.

        `profiles`: scheduler names; by default all of the configuration, and without one (and without plugins) the
        default profile and the ready ones for packing. `trials`: how many random orders of the nodes are tried;
        the same `seed` gives the same ones. Nothing changes. Raises `ClusterError`.
        """
        with raising_cluster_error():
            check_trials(trials, "trials")
            served, chosen = self._input.served, _names(profiles)
            if self._schedulers.configuration is None and not self._schedulers.plugins:
                version = served.config.gates.version
                served = replace(self._schedulers, configuration=ready_profiles(), version=version).serving()
                served, chosen = replace(served, why_version=self._input.served.why_version), chosen or list(READY)
            found = replace(self._input, served=served)
            with warnings_kept() as lines:
                answer = compact(found, profiles_of(served, chosen, "profiles: "), trials=trials, seed=seed)
            return CompactResult(answer, served.rules, failures_in(lines))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        objects = self._input.objects
        there = [pod for pod in objects.pods if not pod.is_terminal]
        waiting = sum(not pod.spec.node_name for pod in there)
        whole = f"cluster of {nodes_text(len(objects.nodes))}: {pods_text(len(there))}, {waiting} of them pending"
        return f"{whole}; what could not be read or was presumed is in `notes`" if self.notes else whole

    def _repr_html_(self) -> str:
        return f"<p>{self}</p>{self.nodes._repr_html_()}"


class ScheduleResult:
    """Where pods go, which stay pending and why, who is evicted, and the cluster as it is then."""

    def __init__(self, answer: Simulation, cluster: Cluster, notes: Sequence[str]) -> None:
        self.answer = answer
        """The typed answer: what `kscheduler simulate -o json` prints."""
        self.cluster = cluster
        """The cluster as it is then. The one that was asked has not changed."""
        self.notes = tuple(notes)
        """What could not be read or had to be presumed."""

    @property
    def placed(self) -> Table[PodResult]:
        """The pods that got a node, in the order of the bindings."""
        return Table(
            PodResult,
            (PodResult(each.pod, each.node, each.score, each.origin, "") for each in self.answer.placed),
        )

    @property
    def pending(self) -> Table[PodResult]:
        """The pods that have none, each with the reason."""
        return Table(
            PodResult,
            (
                PodResult(each.pod, None, None, each.origin, each.message, each.nominated_node)
                for each in self.answer.waiting
            ),
        )

    @property
    def pods(self) -> Table[PodResult]:
        """Both: first the pods that got a node."""
        return Table(PodResult, (*self.placed, *self.pending))

    @property
    def evicted(self) -> Table[Evicted]:
        """The pods that lost their node: by preemption, a drain, a removed node, or a taint."""
        return Table(Evicted, self.answer.evicted)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dict for each placement."""
        return self.pods.to_dicts()

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row for each placement. Raises `ImportError` where pandas is not installed."""
        return self.pods.to_pandas()

    def to_polars(self) -> Any:
        """A `polars.DataFrame` with a row for each placement. Raises `ImportError` where polars is not installed."""
        return self.pods.to_polars()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """A short table: the pods that stay pending come first."""
        return "\n".join(line.rstrip() for line in self._lines())

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        tables = "".join(rows._repr_html_() for _, rows in self._tables())
        return f"<p>{escape(summary_of(self.answer))}</p>{tables}{notes_in_html(self.notes)}"

    def _tables(self) -> list[tuple[str, Table[Any]]]:
        tables: list[tuple[str, Table[Any]]] = [
            ("pending", self.pending),
            ("placed", self.placed),
            ("evicted", self.evicted),
        ]
        return [(name, rows) for name, rows in tables if rows]

    def _lines(self) -> Iterator[str]:
        yield summary_of(self.answer)
        for name, rows in self._tables():
            yield from ("", f"{name}:", str(rows))
        yield from notes_as_text(self.notes)


class SimulationResult(ScheduleResult):
    """The same of a simulation with changes: printed as `kscheduler simulate` prints it."""

    @property
    def drains(self) -> tuple[Drained, ...]:
        """What each drain comes to: who is evicted, and which disruption budgets keep whom."""
        return self.answer.drains

    @property
    def capacity(self) -> Capacity | None:
        """How many more pods like the first new one would fit; `None`: it was not asked."""
        return self.answer.capacity

    @property
    def added_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that came."""
        return self.answer.added_nodes

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _lines(self) -> Iterator[str]:
        yield simulation_text(self.answer)
        yield from notes_as_text(self.notes)
        yield from ("", *wrapped(printable(self.cluster.rules), WIDTH))


def _by_node(parameter: str, given: Any) -> Iterable[tuple[str, Any]]:
    """The entries of a dict by node. Raises `ClusterError` that begins with the parameter."""
    if not isinstance(given, Mapping | None):
        raise ClusterError(f"{parameter}: a dict with a key for each node was expected, not {type(given).__name__}")
    return () if given is None else given.items()


def _taints(given: Any) -> list[dict[str, Any]]:
    """The taints of all nodes as a request has them. Raises `ClusterError` that begins with the parameter."""
    found = []
    for node, listed in _by_node("taints", given):
        for each in listed if isinstance(listed, list | tuple) else (listed,):
            if not isinstance(each, Mapping):
                kind = type(each).__name__
                raise ClusterError(f"taints: {node}: a dict with key, value and effect was expected, not {kind}")
            found.append({"node": node, **each})
    return found


def _is_name(given: object) -> bool:
    return isinstance(given, str | PathLike) and bool(fspath(given))


def _names(given: Any) -> list[str]:
    """One name, or several. Raises `ClusterError`."""
    if given is None or isinstance(given, str):
        return [given] if given else []
    names = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in names):
        raise ClusterError(f"names were expected, not {given!r:.80}")
    return names
