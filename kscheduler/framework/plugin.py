"""The extension points, and the shape that every plugin has.

A plugin is a class with a `name`; it takes part in an extension point by having its method. All methods are
synchronous and fast except `pre_bind` and `bind`, which talk to the outside. Filters and scores see many rows at once:

    pre_enqueue   may the pod enter the queue at all?
    sort_key      which pod goes first (exactly one plugin)
    pre_filter    look at the pod once; reject it, or narrow the nodes by name, or skip the filter
    filter        rows -> codes: 0 passes, > 0 Unschedulable, < 0 UnschedulableAndUnresolvable
    post_filter   nothing fits: what now? (preemption)
    pre_score     look at the feasible rows once, or skip the score
    score         rows -> raw points;  normalize  raw points -> 0..100
    reserve, permit, pre_bind, bind, post_bind, unreserve   around the one node that was chosen

A code's meaning is the plugin's own; `status(cycle, code)` tells it when somebody asks. An exception is an Error: it
ends the attempt, is logged with pod and plugin, and the pod is retried with back-off.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

from kscheduler.api import well_known
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ClusterEventWithHint
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SKIP, Code, Status

MAX_NODE_SCORE: Final = well_known.MAX_NODE_SCORE
MIN_NODE_SCORE: Final = well_known.MIN_NODE_SCORE

PASS_ALL: Final = None
"""What a filter returns when it has no objection to any row."""


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
        """As metrics and error texts name it."""


class Source(Enum):
    """What a plugin's answer about a row depends on, besides the pod.

    An answer is all that a plugin says before points are normalised: PreFilter, Filter, PreScore and Score. Where it
    depends on AMOUNTS, ROW and IMAGES only, it is kept for all pods that the plugin signs alike, and asked for again
    only where these have changed; any other source means that the plugin is asked for each pod.
    """

    AMOUNTS = "amounts"
    """What the row's node gives and its pods take: `allocatable`, `requested`, `nonzero_requested`, `allowed_pods` and
    `pod_count`, and nothing else of the row. Rows with equal amounts get equal answers."""
    ROW = "row"
    """The node of the row itself and the pods on it, and nothing about other rows."""
    IMAGES = "images"
    """Which nodes have which images, and how many nodes there are."""
    TOPOLOGY_COUNTERS = "topology counters"
    VOLUMES = "volumes"
    NAMESPACES = "namespaces"
    ANYTHING = "anything"
    """Never cached."""


class _Unsignable(Enum):
    UNSIGNABLE = "unsignable"


UNSIGNABLE: Final = _Unsignable.UNSIGNABLE
"""What `sign` returns for a pod whose verdicts must not be shared with any other pod."""

Signature = Hashable
"""The part of a pod that a plugin reads: of pods with equal signatures, namespaces and labels, all get the same
verdicts, raw scores and answers of hints. It is a matter of the pod alone: the cluster has no say in it."""


class Plugin:
    """What all plugins share. Subclass it, set `name`, and write the methods you need."""

    name: str
    """Unique; configuration, metrics, messages and recorded decisions use it."""
    depends_on: ClassVar[tuple[Source, ...]] = (Source.ANYTHING,)
    reads_pods: ClassVar[bool] = True
    """Whether `filter` or `score` look at the pods of a node; if not, what they say stands while pods come and go."""
    reads_spec_only: ClassVar[bool] = False
    """Whether of a pod nothing matters but its spec (and what its status says of resources): neither labels nor
    namespace nor anything else of its metadata, nor what its claims are called, for the plugin's answers and for what
    it signs."""
    normalizes_points_only: ClassVar[bool] = False
    """Whether `normalize` reads nothing but the raw points: neither the pod nor which rows they are of."""
    needs_volumes: ClassVar[bool] = False
    """Whether a pod without volumes is nothing to it: its PreFilter and PreScore skip every such pod."""
    reasons: ClassVar[Mapping[int, str]] = {}
    """What the codes of `filter` mean, where that does not depend on the pod."""

    def status(self, cycle: CycleState, code: int) -> Status:
        """What a code of `filter` means: the sign says whether preemption could help."""
        del cycle
        return status_of_code(code, (self.reasons[code],), self.name)


def status_of_code(code: int, reasons: tuple[str, ...], plugin: str) -> Status:
    """A filter code's status: positive is Unschedulable, negative UnschedulableAndUnresolvable."""
    return Status(Code.UNSCHEDULABLE if code > 0 else Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, plugin)


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """What PreFilter found out."""

    status: Status
    node_names: frozenset[str] | None = None
    """Only these nodes can fit; `None` is no restriction."""


SKIPPED: Final = PreFilterResult(SKIP)
"""What PreFilter answers where Filter has nothing to judge: one for all, because nearly every pod gets it."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What PostFilter says about a pod that fits nowhere, and what it wants done."""

    status: Status
    nominated_node_name: str | None = None
    """A node that will have room; empty clears an earlier nomination, `None` leaves it."""
    preemption: Preemption | None = None
    """With Success: whom to evict for it. The plugin itself touches nobody; the attempt begins it after the cycle."""


@dataclass(frozen=True, slots=True)
class PermitResult:
    """Whether the pod may be bound now."""

    status: Status
    timeout_seconds: float = 0.0
    """With Wait: how long at most (capped at 15 minutes)."""


@dataclass(frozen=True, slots=True)
class PreFlightResult:
    """Whether PreBind has something to do, and whether it minds company."""

    status: Status
    """Success, or Skip; anything else is an error."""
    allow_parallel: bool = False
    """Its PreBind may run at the same time as that of its neighbours in the profile which allow it, too."""


class EnqueueExtensions(Protocol):
    """A plugin that tells which events may change its verdict."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The events, each with a comment why."""
        ...


class PreEnqueuePlugin(Protocol):
    """Decides whether a pod may enter the queue."""

    name: str

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Success lets it in; anything else gates it."""
        ...


class QueueSortPlugin(Protocol):
    """Orders the active queue."""

    name: str

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """Compared with `<`: the smallest goes first. It must not change while the pod is queued."""
        ...


class PreFilterPlugin(Protocol):
    """Looks at the pod once per cycle."""

    name: str

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Reject, narrow, skip the coupled filter, or prepare state for it."""
        ...


class PreFilterExtensions(Protocol):
    """For a PreFilter whose state tells of pods: what one pod more, or less, on a row means for it.

    Asked when a row is judged as if pods that are nominated to it were there, or as if victims of a preemption were
    gone. A filter that reads all it needs from the `NodeTable` at the row itself has no use for it: the table it gets
    shows the row so (and other rows, too). `cycle` is a copy, but shares its values: replace them, do not change them;
    write nothing where the pod is of no consequence, and rows without such pods are judged together.
    """

    name: str

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count `added` on the row."""
        ...

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count `removed`, which was there, no longer."""
        ...


class RowWiseExtensions(PreFilterExtensions, Protocol):
    """For one whose state can tell rows apart: many rows are judged at once then, instead of one by one."""

    def move_pods(self, cycle: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> None:
        """Count pods for the row alone that each of them is on: no other row's verdict may change.

        `add_pod` may follow for one row; the state is used for no other row then.
        """
        ...


class FilterPlugin(Protocol):
    """Judges rows."""

    name: str

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """One code per row, or `PASS_ALL`."""
        ...

    def status(self, cycle: CycleState, code: int) -> Status:
        """What a code means."""
        ...


class PostFilterPlugin(Protocol):
    """Acts when nothing fits."""

    name: str

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        """Make room, or say why not."""
        ...


class PreScorePlugin(Protocol):
    """Looks at the feasible rows once per cycle."""

    name: str

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Prepare state for the score, or Skip it."""
        ...


class ScorePlugin(Protocol):
    """Gives rows points."""

    name: str

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Raw points, one per row."""
        ...


class NormalizingPlugin(ScorePlugin, Protocol):
    """A score plugin whose raw points are not within 0..100 yet."""

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """Points within 0..100, one per row."""
        ...


class ReservePlugin(Protocol):
    """Sets something aside on the chosen node, and gives it back when the pod does not get there."""

    name: str

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Set it aside."""
        ...

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give it back. Must tolerate that `reserve` never ran."""
        ...


class PermitPlugin(Protocol):
    """May hold a pod back before it is bound."""

    name: str

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        """Success, Wait, or a rejection."""
        ...


class PreBindPlugin(Protocol):
    """Prepares the world for a binding (volumes, claims)."""

    name: str

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | PreFlightResult:
        """Skip where `pre_bind` has nothing to do. A plain Status is a `PreFlightResult` that wants no company."""
        ...

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Do it; may take long. Cancelled when the pod is preempted meanwhile, or a neighbour has failed."""
        ...


class BindPlugin(Protocol):
    """Tells the API server."""

    name: str

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, Skip (not my pod), or a failure."""
        ...


class PostBindPlugin(Protocol):
    """Is told of bound pods."""

    name: str

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Informational; nothing it does can fail the pod."""
        ...
