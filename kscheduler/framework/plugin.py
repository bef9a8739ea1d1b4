"""The extension points, and the shape that every plugin has.

A plugin is a class with a `name`; it takes part in an extension point by having the point's method. All methods are
synchronous and fast but `pre_bind`, `bind` and `refresh`, which may do I/O, and `permit`, `post_bind` and `close`,
which may be coroutines. Filters and scores handle many rows:

    pre_enqueue   may the pod enter the queue at all?
    sort_key      which pod goes first (exactly one plugin)
    pre_filter    look at the pod once; reject it, or narrow the nodes by name, or skip the filter
    filter        rows -> codes: 0 passes, > 0 Unschedulable, < 0 UnschedulableAndUnresolvable
    post_filter   no node fits: make room (preemption)
    pre_score     look at the feasible rows once, or skip the score
    score         rows -> raw points;  normalize  raw points -> 0..100
    reserve, permit, pre_bind, bind, post_bind, unreserve   for the chosen node

    refresh       fetch data of the plugin's own, in the background, every `refresh_interval` seconds
    close         nobody uses the plugin any more: another configuration is in force, or the service ends

Each plugin defines its own codes; `status(cycle, code)` gives the text when it is needed. An exception is an Error: it
is logged with pod and plugin, ends the attempt, and the pod is retried with backoff; where a score of a plugin that is
not in-tree fails, the pod is decided without its points.
"""

from collections.abc import Awaitable, Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

import msgspec

from kscheduler.api import well_known
from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.cluster.pod_groups import GroupDefinition, PlacementProgress
from kscheduler.framework.cluster.preemption import (
    GroupPlacement,
    GroupTrial,
    PodGroupPostFilterResult,
    Preemption,
    ProposedPlacement,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SKIP, Code, Status

# The most points that a plugin gives a node, before its weight.
MAX_NODE_SCORE: Final = well_known.MAX_NODE_SCORE
# The least.
MIN_NODE_SCORE: Final = well_known.MIN_NODE_SCORE

# What a filter returns when every row passes.
PASS_ALL: Final = None
# The code of a row for which a user's filter has failed. The plugin is not asked what it means.
NOT_EVALUATED: Final = -(2**62)


class Point(Enum):
    """Extension points: the configuration's key, and the method that takes part in it."""

    PRE_ENQUEUE = ("preEnqueue", "pre_enqueue", "PreEnqueue")
    QUEUE_SORT = ("queueSort", "sort_key", "QueueSort")
    PRE_FILTER = ("preFilter", "pre_filter", "PreFilter")
    FILTER = ("filter", "filter", "Filter")
    POST_FILTER = ("postFilter", "post_filter", "PostFilter")
    PRE_SCORE = ("preScore", "pre_score", "PreScore")
    SCORE = ("score", "score", "Score")
    RESERVE = ("reserve", "reserve", "Reserve")
    PERMIT = ("permit", "permit", "Permit")
    PRE_BIND = ("preBind", "pre_bind", "PreBind")
    BIND = ("bind", "bind", "Bind")
    POST_BIND = ("postBind", "post_bind", "PostBind")

    def __init__(self, key: str, method: str, label: str) -> None:
        self.key = key
        self.method = method
        self.label = label
        """The name in metrics and error texts."""


class Source(Enum):
    """What a plugin's result about a row depends on, besides the pod.

    A result is everything that a plugin returns before points are normalised: in PreFilter, Filter, PreScore and
    Score. If it depends on AMOUNTS, ROW and IMAGES only, it is kept for all pods that the plugin signs alike, and the
    plugin is called again only for rows where these have changed; with any other source it is called for each pod.
    """

    AMOUNTS = "amounts"
    """The resources that the row's node offers and its pods use: `allocatable`, `requested`, `nonzero_requested`,
    `allowed_pods` and `pod_count`, and nothing else of the row. Rows with equal amounts get equal results."""
    ROW = "row"
    """The node of the row itself and the pods on it, and nothing about other rows."""
    IMAGES = "images"
    """Which nodes have which images, and how many nodes there are."""
    TOPOLOGY_COUNTERS = "topology counters"
    """How many pods of some kind run in each topology domain."""
    VOLUMES = "volumes"
    """Claims, volumes, and what drivers say of them."""
    NAMESPACES = "namespaces"
    """The labels of namespaces."""
    ANYTHING = "anything"
    """Never cached."""


class _Unsignable(Enum):
    UNSIGNABLE = "unsignable"


# What `sign` returns for a pod whose verdicts must not be shared with any other pod.
UNSIGNABLE: Final = _Unsignable.UNSIGNABLE

# The part of a pod that a plugin reads: pods with equal signatures, namespaces and labels get the same verdicts, raw
# scores and hint results. It depends on the pod alone, never on the cluster.
Signature = Hashable


# How long a pod waits for an `async def permit` of a plugin that does not say.
PERMIT_TIMEOUT_SECONDS: Final = 10.0


class Plugin:
    """What all plugins share. Subclass it, set `name`, and write the methods you need."""

    name: str
    """Unique; configuration, metrics, messages and recorded decisions use it."""
    depends_on: ClassVar[tuple[Source, ...]] = (Source.ANYTHING,)
    """Which of its results may be kept for other pods, and for how long: what they depend on besides the pod."""
    reads_pods: ClassVar[bool] = True
    """Whether `filter` or `score` read the pods of a node; if not, their results hold while pods come and go."""
    reads_spec_only: ClassVar[bool] = False
    """Whether the plugin's results and signature depend on the pod's spec only (and on the resources in its status):
    neither on labels, namespace or other metadata, nor on the names of its claims."""
    normalizes_points_only: ClassVar[bool] = False
    """Whether `normalize` reads the raw points only: neither the pod nor the row numbers."""
    needs_volumes: ClassVar[bool] = False
    """Whether its PreFilter and PreScore skip every pod without volumes."""
    reasons: ClassVar[Mapping[int, str]] = {}
    """The text for each code of `filter`, if it does not depend on the pod. Without one the code is reported as a
    number."""

    def status(self, cycle: CycleState, code: int) -> Status:
        """The status for a code of `filter`: its sign says whether preemption could help."""
        del cycle
        return status_of_code(code, (self.reasons.get(code) or no_reason(self.name, code),), self.name)


def no_reason(plugin: str, code: int) -> str:
    """The reason where a filter gives none."""
    return f"node(s) didn't pass plugin {plugin}, which gives no reason for its code {code}"


def status_of_code(code: int, reasons: tuple[str, ...], plugin: str) -> Status:
    """A filter code's status: positive is Unschedulable, negative UnschedulableAndUnresolvable."""
    return Status(Code.UNSCHEDULABLE if code > 0 else Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, plugin)


class PreFilterResult(msgspec.Struct, frozen=True):
    """The result of PreFilter."""

    status: Status
    """Success, Skip (nothing to filter), or a rejection of the pod on every node."""
    node_names: frozenset[str] | None = None
    """Only these nodes can fit; `None` is no restriction."""


# PreFilter's result when Filter has nothing to check: one shared value, because nearly every pod gets it.
SKIPPED: Final = PreFilterResult(SKIP)


class PostFilterResult(msgspec.Struct, frozen=True):
    """PostFilter's result for a pod that fits on no node, and the action it requests."""

    status: Status
    """Success if a node will have room; else a rejection with the reason why none will, or an error."""
    nominated_node_name: str | None = None
    """A node that will have room; empty clears an earlier nomination, `None` leaves it."""
    preemption: Preemption | None = None
    """With Success: the victims to evict. The plugin itself evicts no pod; the attempt starts it after the cycle."""
    deallocation: Deallocation | None = None
    """With Unschedulable: the claim whose devices to free. The attempt starts it; other plugins are still called."""


class PermitResult(msgspec.Struct, frozen=True):
    """Whether the pod may be bound now."""

    status: Status
    """Success, Wait, or a rejection."""
    timeout_seconds: float = 0.0
    """With Wait: how long at most, in seconds (capped at 15 minutes). The pod is then rejected."""


class PreFlightResult(msgspec.Struct, frozen=True):
    """Whether PreBind has something to do, and whether it may run in parallel with other plugins."""

    status: Status
    """Success, or Skip; anything else is an error."""
    allow_parallel: bool = False
    """Its PreBind may run at the same time as those of adjacent plugins in the profile that allow it, too."""


class EnqueueExtensions(Protocol):
    """A plugin that lists the events that may change its verdict. Without it, each event wakes the pods it rejected."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The events, each with a hint where the objects say more. Asked once, when the profile is built."""
        ...


class PreEnqueuePlugin(Protocol):
    """Decides whether a pod may enter the queue."""

    name: str

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Success lets it in; a rejection gates it until one of the plugin's events.

        After an Error the plugin is asked again.
        """
        ...


class QueueSortPlugin(Protocol):
    """Orders the active queue."""

    name: str

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """The pod's key, compared with `<`: the smallest goes first. It must not change while the pod is queued."""
        ...


class PreFilterPlugin(Protocol):
    """Looks at the pod once per cycle."""

    name: str

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Reject, narrow, skip the coupled filter, or prepare state for it."""
        ...


class PreFilterExtensions(Protocol):
    """For a PreFilter whose state counts pods: updates the state for a pod added to, or removed from, a row.

    Called when a row is checked as if the pods nominated to it were there, or as if victims of a preemption were gone.
    A filter that reads everything from the `NodeTable` at the row itself does not need it: the table that it gets
    already shows the change, on this and on other rows. `cycle` is a copy, but shares its values: replace them, do not
    modify them. Write nothing if the pod makes no difference: rows without written state are checked together.
    """

    name: str

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count `added` on the row."""
        ...

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int) -> None:
        """Stop counting `removed`, which was counted on the row."""
        ...


class RowWiseExtensions(PreFilterExtensions, Protocol):
    """For a plugin whose state counts pods per row: many rows are then checked in one call instead of singly."""

    def move_pods(self, cycle: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> None:
        """Count each pod on its own row only: the verdicts of other rows must not change.

        `add_pod` may follow for a single row; the state is then used for that row only.
        """
        ...


class FilterPlugin(Protocol):
    """Decides on which rows the pod can run."""

    name: str

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """A code per row (int64, shape of `rows`), or `PASS_ALL`."""
        ...

    def status(self, cycle: CycleState, code: int) -> Status:
        """The status that a code stands for."""
        ...


class PostFilterPlugin(Protocol):
    """Called when no node fits."""

    name: str

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        """Success with a node that will have room, or Unschedulable with the reason why none will."""
        ...


class PreScorePlugin(Protocol):
    """Looks at the feasible rows once per cycle."""

    name: str

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Success, with state for the score if it needs any; or Skip: the plugin is not asked for points."""
        ...


class ScorePlugin(Protocol):
    """Scores rows."""

    name: str

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Raw points (int64, shape of `rows`)."""
        ...


class NormalizingPlugin(ScorePlugin, Protocol):
    """A score plugin whose raw points are not within 0..100 yet."""

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """Points within 0..100 (int64, shape of `rows`)."""
        ...


class ReservePlugin(Protocol):
    """Reserves something on the chosen node, and releases it if the pod is not bound there."""

    name: str

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or why not: the pod is then not bound, and all plugins are asked to `unreserve`."""
        ...

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release the reservation. Must tolerate that `reserve` never ran."""
        ...


class PermitPlugin(Protocol):
    """May hold a pod back before it is bound.

    `permit` is plain, as here, and answers at once; or it is declared with `async def` and answers a Status: then the
    pod waits for its result, at most for the plugin's `permit_timeout_seconds` (`PERMIT_TIMEOUT_SECONDS` if it names
    none). It is cancelled when the pod waits no more: another plugin has rejected it, it is gone, the time is over.
    """

    name: str

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        """Success, Wait, or a rejection."""
        ...


class PreBindPlugin(Protocol):
    """Prepares what a binding needs (volumes, claims)."""

    name: str

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | PreFlightResult:
        """Skip if `pre_bind` has nothing to do. A plain Status is a `PreFlightResult` without `allow_parallel`."""
        ...

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or why the pod cannot be bound: then all plugins are asked to `unreserve`.

        May take long. Cancelled if the pod is preempted meanwhile or a parallel PreBind has failed.
        """
        ...


class BindPlugin(Protocol):
    """Writes the binding to the API server."""

    name: str

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success once the API server has stored it; Skip, and the next plugin is asked; or a failure."""
        ...


class PostBindPlugin(Protocol):
    """Called after a pod is bound.

    `post_bind` is plain, as here, or declared with `async def`: then it goes on beside the pods that follow, for a
    minute at most.
    """

    name: str

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Informational; nothing it does can fail the pod."""
        ...


class PlacementFeasiblePlugin(Protocol):
    """Judges how far an attempt to place a pod group has come; asked before the first member and after each.

    Configurations name it at `placementFeasible` where 1.38 is followed; before, every plugin of the profile that has
    the method is asked.
    """

    name: str

    def placement_feasible(self, group: GroupDefinition, progress: PlacementProgress) -> Status:
        """Success: the group may be placed as it is. Wait: not yet. Unschedulable: it never can be this time."""
        ...


class PlacementGeneratePlugin(Protocol):
    """Says in which parts of the cluster a pod group may be placed. Configurations name one at `placementGenerate`."""

    name: str

    def generate_placements(self, group: GroupDefinition, parent: GroupPlacement) -> Sequence[GroupPlacement] | Status:
        """The placements to try, parts of the parent; none: the group cannot be placed. A Status says why."""
        ...


class PlacementScorePlugin(Protocol):
    """Says which of the placements that a pod group fits into is best. Configurations name it at `placementScore`."""

    name: str

    def score_placements(self, group: GroupDefinition, proposals: Sequence[ProposedPlacement]) -> Scores:
        """0..100, an int64 per proposal. Raises `StatusError`."""
        ...


class PodGroupPostFilterPlugin(Protocol):
    """Called when a pod group was rejected. Configurations name it at `podGroupPostFilter`."""

    name: str

    def pod_group_post_filter(self, trial: GroupTrial) -> PodGroupPostFilterResult:
        """Find a way to make room for the group, or the reason why there is none."""
        ...


class RefreshPlugin(Protocol):
    """Decides by data of its own (measurements, prices), which are fetched in the background and never inside it."""

    name: str
    refresh_interval: float
    """Seconds from the end of a refresh to the beginning of the next; each wait is up to a tenth shorter or longer."""

    async def refresh(self) -> None:
        """Fetch, keep what was fetched, and call `Handle.nodes_changed` for the nodes whose data changed.

        Called at once when the plugin is taken into use, then periodically until it is replaced, on every replica,
        leader or not; never twice at a time. It has `REFRESH_SECONDS`. An exception costs a line of the log: what was
        fetched before stays in use, and how old it may become is the plugin's own business.
        """
        ...


class RefreshError(Exception):
    """What a refresh raises when its source gave nothing usable: the text is logged as it is, without a traceback."""


# How long a refresh may take, in seconds.
REFRESH_SECONDS: Final = 30.0


class ClosablePlugin(Protocol):
    """Has something to give back: a connection, a file, a task."""

    name: str

    def close(self) -> Awaitable[None] | None:
        """Give it back; plain, or with `async def` where that takes time: it has a few seconds.

        Called once, after the last call of another method: when a changed configuration has replaced the plugin and
        the pods that it has decided about are through, or at an orderly end. Not after a crash, and not for a plugin
        that was built and never used. A factory returns a new plugin each time: a closed one is not opened again.
        """
        ...
