"""What `explain` answers, as typed values: public, and the same for text, JSON and the status page.

    PodExplanation        where a pod goes and why: `kscheduler explain -o json`, `GET /explain?pod=`
    PodGroupExplanation   the same of a pod group, whose members are decided about together
    ExplanationList       of several new pods: `POST /explain`

JSON is msgspec's encoding of these structs, a key for each field in their order; `explanation.schema.json` and a part
of the OpenAPI page are made from them (`kscheduler.server.pages.published`). Within one API version keys may be added;
none is removed or changes its meaning. The first keys of a pod, from `error` to `preemptionCandidates`, are those of
recorded decisions (tests/vectors), which are compared key by key: they are never extended.
"""

from enum import Enum
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from kscheduler.answers import Answer, EmulationVersion, Names
from kscheduler.answers.suggestions import SuggestionAnswer
from kscheduler.framework.status import Code

API_VERSION: Final = "explain.kscheduler.io/v1"


class Outcome(Enum):
    """The outcome in one word, from a closed list that programs can rely on."""

    PLACED = "Placed"
    """It fits, and has got a node."""
    PREEMPTING = "Preempting"
    """It fits nowhere, and pods of lower priority would be evicted for it."""
    UNSCHEDULABLE = "Unschedulable"
    """It fits nowhere, and preemption does not help."""
    GATED = "Gated"
    """A PreEnqueue plugin (scheduling gates) keeps it out of the queue."""
    BOUND = "Bound"
    """It has a node already; the cycle's result is hypothetical."""
    TERMINATING = "Terminating"
    """It is being deleted: no scheduler handles it any more."""
    FINISHED = "Finished"
    """It has run to its end: no scheduler handles it any more."""
    NOT_SERVED = "NotServed"
    """Its spec.schedulerName is not a profile here; the cycle's result is hypothetical."""
    ERROR = "Error"
    """It could not be judged."""


class PodState(Enum):
    """Whether the pod is to be scheduled."""

    PENDING = "Pending"
    BOUND = "Bound"
    TERMINATING = "Terminating"
    FINISHED = "Finished"
    NOT_SERVED = "NotServed"
    NEW = "New"
    """It does not exist yet."""


_OF_THE_CYCLE: Final = [
    each.value for each in (Outcome.PLACED, Outcome.PREEMPTING, Outcome.UNSCHEDULABLE, Outcome.GATED, Outcome.ERROR)
]
_PLACES: Final = [
    *("active", "backoff", "unschedulable", "gated", "incomplete", "pending"),
    *("permit", "extenderLine", "underWay", "none"),
]
_NATURAL: Final = Meta(ge=0)

# A status code of kube-scheduler.
CodeLabel = Annotated[str, Meta(extra_json_schema={"enum": [code.label for code in Code]})]
# By node, points by plugin.
Points = dict[str, dict[str, int]]


# --- who rejected nodes, and why --------------------------------------------------------------------------------------


class StatusAnswer(Answer, frozen=True):
    """What a plugin says of the pod as a whole."""

    status: CodeLabel
    plugin: str
    reasons: Names


class NodeVerdictAnswer(Answer, frozen=True):
    """What a plugin says of one node."""

    plugin: str
    code: CodeLabel
    reasons: Names


class NamedDetail(Answer, frozen=True):
    """What exactly was wrong with a group of nodes."""

    kind: Annotated[
        str,
        Meta(description="What the facts are about. Other plugins than kscheduler's own may have kinds of their own."),
    ]
    text: Annotated[str, Meta(description="The same for a person, without the nodes' names.")]
    nodes: Annotated[Names, Meta(description="Sorted; empty where the pod was rejected for all nodes at once.")]
    beside: Annotated[
        Names,
        Meta(description="The plugin objects to these nodes only with these pods there, which are nominated to them."),
    ] = field(name="besideNominatedPods")
    facts: Annotated[dict[str, Any], Meta(description="By its kind as `detail_facts.FACTS` has them.")]


class RejectedNodes(Answer, frozen=True):
    """Nodes that a plugin rejected for the same reasons."""

    code: CodeLabel
    reasons: Names
    preemption_might_help: bool
    nodes: Annotated[Names, Meta(description="Sorted.")]

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)


class PluginRejections(Answer, frozen=True):
    """The nodes that one plugin rejected."""

    plugin: Annotated[
        str, Meta(description="Empty for nodes outside the names that PreFilter plugins narrowed the search to.")
    ]
    source: Annotated[
        str | None, Meta(description="FILE:LINE of a plugin of your own; null for kube-scheduler's and ours.")
    ]
    count: int
    statuses: Annotated[tuple[RejectedNodes, ...], Meta(description="That with the most nodes first.")]
    details: tuple[NamedDetail, ...]


# --- other nodes, ties, nominations, preemption -----------------------------------------------------------------------


class PluginPoints(Answer, frozen=True):
    """The weighted points of a plugin for two nodes."""

    plugin: str
    weight: int
    chosen: int
    other: int


class WhyNotThere(Answer, frozen=True):
    """Why a node was rejected."""

    plugin: str
    code: CodeLabel
    reasons: Names
    details: Names

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)


class Against(Answer, frozen=True):
    """Another node beside the pod's."""

    node: str
    chosen: Annotated[
        str | None, Meta(description="The node that the pod is on, or would go to; null: it has none.")
    ] = None
    problem: Annotated[
        str | None,
        Meta(
            description="Why they cannot be compared: an unknown node, a pod that was not judged, a node that was not "
            "looked at."
        ),
    ] = None
    status: Annotated[WhyNotThere | None, Meta(description="Why the pod does not fit there; null: it does.")] = field(
        default=None, name="turnedDown"
    )
    points: Annotated[
        tuple[PluginPoints, ...],
        Meta(
            description="Weighted points of both, by plugin; empty where one of them was rejected or nothing was "
            "scored."
        ),
    ] = ()
    behind: Annotated[
        int | None,
        Meta(
            description="By how many points the node is behind; below 0 if it is ahead, as for a pod that was bound "
            "earlier. Null without points."
        ),
    ] = None


class RunnerUp(Answer, frozen=True):
    """The second best node."""

    node: str
    behind: int | None


class TieBreak(Answer, frozen=True):
    """How one of several equally good nodes was chosen."""

    rule: str
    nodes: Names
    winner: str
    pod_has_uid: Annotated[
        bool,
        Meta(description="Without a UID the winner is that of namespace/name: the real pod's may be another."),
    ] = field(name="podHasUID")


class WithoutNomination(Answer, frozen=True):
    """The decision as it would be without the nomination."""

    node: str | None
    evaluated_count: int
    feasible_count: int
    feasible: Names
    best: Names
    rejections: tuple[PluginRejections, ...]


class NominationAnswer(Answer, frozen=True):
    """The pod's nominated node, and what it means for the decision."""

    node: str
    exists: bool
    passes: bool
    only_node_tried: Annotated[
        bool,
        Meta(description="The nominated node is tried first; where it passes, no other node is looked at."),
    ]
    pods_being_deleted: Annotated[
        Names, Meta(description="On the nominated node: a preemptor waits for its victims to be gone.")
    ]
    without_it: Annotated[
        WithoutNomination | None,
        Meta(description="What holds without the nomination, where only that node was tried."),
    ]


class PreemptionOutcome(Answer, frozen=True):
    """PostFilter's result."""

    status: CodeLabel
    message: str
    nominated_node: str
    victims: Names


class CandidateVictims(Answer, frozen=True):
    """Whom a preemption would evict on a node, by name."""

    victims: Names
    pdb_violations: int


class Victim(Answer, frozen=True):
    """A pod that a preemption would evict."""

    namespace: str
    name: str
    priority: int
    start_time: str | None


class PreemptionCandidate(Answer, frozen=True):
    """A node where a preemption makes room."""

    node: str
    victims: Annotated[tuple[Victim, ...], Meta(description="The most important first.")]
    pdb_violations: int


class PreemptionDetails(Answer, frozen=True):
    """Whom a preemption would evict, here and elsewhere."""

    chosen: PreemptionCandidate
    candidates: tuple[PreemptionCandidate, ...]


# --- devices and extenders --------------------------------------------------------------------------------------------


class ClaimedDevice(Answer, frozen=True):
    """A device of a claim."""

    claim: Annotated[
        str, Meta(description="The claim's name; <extended-resources> for one that stands for extended resources.")
    ]
    request: Annotated[str, Meta(description="The request, or request/subrequest.")]
    driver: str
    pool: str
    device: str
    is_allocated: Annotated[bool, Meta(description="The claim had the device before this decision.")]

    @property
    def text(self) -> str:
        """The device in one word."""
        return f"{self.driver}/{self.pool}/{self.device}"


class ExtenderRole(Answer, frozen=True):
    """An HTTP extender that the pod concerns."""

    url: Annotated[str, Meta(description="Without user name, password and query.")]
    verbs: tuple[Literal["filter", "prioritize", "preempt"], ...]
    is_ignorable: bool = field(name="ignorable")
    was_queried: Annotated[
        bool,
        Meta(
            description="Whether it was called: without --ask-extenders none is, and the decision is one without them; "
            "nor is one for which those before it have left no node."
        ),
    ] = field(name="asked")
    rejected: Annotated[int, Meta(description="Nodes that it rejected; 0 if it was not asked.")] = field(
        name="turnedDown"
    )
    failure: Annotated[str | None, Meta(description="What went wrong when it was asked, and was ignored.")] = None


# --- the pod's state --------------------------------------------------------------------------------------------------


class ConditionAnswer(Answer, frozen=True):
    """The pod's condition PodScheduled."""

    status: str
    reason: str
    message: str
    last_transition_time: str | None


class ClaimState(Answer, frozen=True):
    """A PersistentVolumeClaim of the pod."""

    name: str
    exists: bool = True
    is_bound: bool = False
    volume: str = ""
    storage_class: str = ""
    binding_mode: str = field(default="", name="volumeBindingMode")
    provisioner: str = ""
    selected_node: Annotated[
        str, Meta(description="The node for which a scheduler has requested the volume; usually empty.")
    ] = ""


class DeviceWaitAnswer(Answer, frozen=True):
    """A device that is reserved for the pod and not ready."""

    claim: str
    device: Annotated[str, Meta(description="driver/pool/device.")]
    conditions: Annotated[Names, Meta(description="Those that its driver has not reported as true.")]
    since: Annotated[str | None, Meta(description="When it was allocated.")]
    until: Annotated[str | None, Meta(description="When the scheduler gives up.")]


class InServiceAnswer(Answer, frozen=True):
    """What only the running service knows of a pod. Times are those of the API, to the second."""

    as_of: Annotated[
        str, Meta(description="A copy of the service has answered that was made then, some seconds ago at most.")
    ]
    place: Annotated[
        str,
        Meta(
            description="The sub-queue (incomplete, pending: with its pod group, which lacks something, or is being "
            "decided); permit and extenderLine: it waits there; underWay: it is being decided or bound; none: the "
            "service does not have it.",
            extra_json_schema={"enum": _PLACES},
        ),
    ]
    leads: bool
    attempts: Annotated[int, _NATURAL]
    since: str | None
    first_attempt: str | None
    backoff_until: str | None
    rejected_by: Names
    awaits_events: Names
    gated_by: str | None
    last_error: str | None
    assumed_on: str | None
    permit_rejects_in_seconds: dict[str, float]


class PodSituation(Answer, frozen=True):
    """A pod's state at the API server, and in the running service if that was asked."""

    pod_state: PodState = field(name="standing")
    phase: str
    node_name: str
    deletion_timestamp: str | None
    pod_scheduled: ConditionAnswer | None
    nominated_node_name: str
    claims: tuple[ClaimState, ...]
    waits_for_volumes: Annotated[
        Names,
        Meta(description="Claims for which a scheduler has selected a node and whose volume is not there yet."),
    ]
    waits_for_devices: Annotated[
        tuple[DeviceWaitAnswer, ...],
        Meta(description="Devices that are reserved for the pod and not ready: it waits in PreBind, or did so."),
    ]
    served_scheduler_names: Names
    origin: Annotated[str | None, Meta(description="Of a pod that does not exist: what it would come from.")]
    in_service: Annotated[
        InServiceAnswer | None, Meta(description="What only the running service knows; null: it was not asked.")
    ]


# --- the whole --------------------------------------------------------------------------------------------------------


class PodName(Answer, frozen=True):
    """The pod."""

    namespace: str
    name: str
    uid: str
    scheduler_name: str


class PodExplanation(Answer, frozen=True, kw_only=True):
    """What `kscheduler explain -o json` prints, one object per line: where a pod goes and why.

    Keys may be added within one apiVersion; none is taken away.
    """

    api_version: Literal["explain.kscheduler.io/v1"] = API_VERSION
    kind: Literal["Explanation"] = "Explanation"
    id: Annotated[
        str, Meta(description="The scenario's id; of a live pod, and where a scenario has none, namespace/name.")
    ]
    pod: PodName
    outcome: Annotated[
        Outcome,
        Meta(
            description="The pod's situation where that leaves nothing to schedule (Bound, Terminating, Finished) or "
            "nobody to do it (NotServed), else how the cycle went."
        ),
    ]
    cycle_outcome: Annotated[
        Outcome | None,
        Meta(
            description="How the cycle went, whatever the pod's situation; null where there was none.",
            extra_json_schema={"enum": [*_OF_THE_CYCLE, None]},
        ),
    ]
    is_hypothetical: Annotated[
        bool,
        Meta(description="Whether the cycle's answer is about a pod that is not going to be scheduled here."),
    ]
    error: Annotated[str | None, Meta(description="Why the pod could not be judged.")] = None
    pre_enqueue: Annotated[StatusAnswer | None, Meta(description="Why the pod may not enter the queue.")] = None
    pre_filter: Annotated[StatusAnswer | None, Meta(description="Why PreFilter rejected the pod for all nodes.")] = None
    pre_filter_nodes: Annotated[
        Names | None,
        Meta(description="The nodes that PreFilter narrowed the search to; they need not exist."),
    ] = None
    filter: Annotated[
        dict[str, NodeVerdictAnswer] | None, Meta(description="Per node that was rejected: by whom and why.")
    ] = None
    feasible: Annotated[
        Names | None,
        Meta(
            description="The nodes that passed, sorted. With a nomination that holds, only that node was tried: see "
            "`nomination`."
        ),
    ] = None
    scores: Annotated[
        Points | None,
        Meta(
            description="Per feasible node each plugin's points, normalised and multiplied by its weight, and `_total`."
        ),
    ] = None
    best: Annotated[Names | None, Meta(description="The nodes with the highest total, sorted.")] = None
    message: Annotated[
        str | None, Meta(description="The text of the condition and the Event; empty where a node fits.")
    ] = ""
    preemption: Annotated[PreemptionOutcome | None, Meta(description="How PostFilter ended.")] = None
    preemption_candidates: Annotated[
        dict[str, CandidateVictims] | None, Meta(description="Per node where a preemption would make room.")
    ] = None
    profile: Annotated[str | None, Meta(description="The profile that decided.")] = None
    node: Annotated[str | None, Meta(description="The node that was chosen.")] = None
    node_count: Annotated[int | None, Meta(description="How many nodes there are.")] = None
    evaluated_count: Annotated[int | None, Meta(description="How many of them the filters were asked about.")] = None
    feasible_count: int | None = None
    rejections: Annotated[
        tuple[PluginRejections, ...] | None,
        Meta(description="The nodes that were rejected, by plugin, in the order in which the plugins ran."),
    ] = None
    pre_filter_details: Annotated[tuple[NamedDetail, ...] | None, Meta(description="More about `preFilter`.")] = None
    raw_scores: Annotated[Points | None, Meta(description="Points before normalising and weighting.")] = None
    weights: Annotated[
        dict[str, int] | None,
        Meta(description="Per plugin that scored: what its normalised points (0 to 100) were multiplied by."),
    ] = None
    devices: Annotated[
        dict[str, tuple[ClaimedDevice, ...]] | None,
        Meta(
            description="By node that passed: the devices that the pod's claims have, or would get there. Null without "
            "claims."
        ),
    ] = None
    tie_break: Annotated[TieBreak | None, Meta(description="Where several nodes have the highest total.")] = None
    nomination: Annotated[NominationAnswer | None, Meta(description="The pod's own status.nominatedNodeName.")] = None
    preemption_details: Annotated[
        PreemptionDetails | None,
        Meta(description="Whom a preemption would evict; victims the most important first."),
    ] = None
    extenders: Annotated[
        tuple[ExtenderRole, ...],
        Meta(description="The HTTP extenders of the configuration that have a say about the pod."),
    ] = ()
    situation: Annotated[
        PodSituation | None,
        Meta(description="What the API server shows of the pod; null for a scenario from a file."),
    ] = None
    against: Annotated[
        Against | None,
        Meta(
            description="Another node beside the one that the pod is on or would go to; null: nobody asked "
            "(`--against`)."
        ),
    ] = None
    runner_up: Annotated[
        RunnerUp | None,
        Meta(
            description="The best node besides the one that the pod is on, or goes to, and how many points it is "
            "behind (below 0: ahead now). Null where no two nodes were scored."
        ),
    ] = None
    suggestions: Annotated[
        tuple[SuggestionAnswer, ...] | None,
        Meta(
            description="Changes after which the pod would fit, the smallest first; each was tried in the cycle. Null: "
            "the pod has a node, was not judged, or none were looked for; empty: none was found."
        ),
    ] = None
    missing: Annotated[
        Names,
        Meta(
            description="Claims and claim templates that the pod names and that do not exist, a sentence for each, "
            "where no suggestion was found."
        ),
    ] = ()
    emulation_version: EmulationVersion
    notes: Annotated[Names, Meta(description="What could not be read or had to be assumed.")] = ()
