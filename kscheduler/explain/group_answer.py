"""What `explain` answers about a pod group, and about several pods at once.

`podGroupOutcome` has the shape of the recorded outcomes (tests/vectors): the group's condition and what becomes of each
member, or what PreEnqueue says of each member if it keeps any of them out. Of a tree of groups, `condition` is that of
the whole, which nobody writes, and `groups` has those of the groups of pods, as they would be written.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from kscheduler.answers import Answer, EmulationVersion, Names
from kscheduler.answers.suggestions import SuggestionAnswer
from kscheduler.explain.answer import (
    API_VERSION,
    ClaimedDevice,
    CodeLabel,
    InServiceAnswer,
    PodExplanation,
    StatusAnswer,
)


class GroupCondition(Answer, frozen=True):
    """A condition of a group, as it would be written."""

    type: str
    status: str
    reason: str
    message: str


class ReportedGroupCondition(GroupCondition, frozen=True):
    """A condition that the group has."""

    last_transition_time: str | None


class MemberOutcome(Answer, frozen=True):
    """A member's node, or why it gets none."""

    node: str | UnsetType = UNSET
    code: CodeLabel | UnsetType = UNSET
    message: str | UnsetType = UNSET


class GroupOutcomeAnswer(Answer, frozen=True):
    """What becomes of the group; without any key: nothing is known."""

    pre_enqueue: Annotated[
        dict[str, StatusAnswer | None] | UnsetType,
        Meta(description="Where some member may not enter the queue, by member what PreEnqueue says; null: it may."),
    ] = UNSET
    condition: GroupCondition | UnsetType = UNSET
    groups: Annotated[
        dict[str, GroupCondition] | UnsetType, Meta(description="Of a tree: the conditions of its groups of pods.")
    ] = UNSET
    pods: dict[str, MemberOutcome] | UnsetType = UNSET


class GroupVictim(Answer, frozen=True):
    """A pod that would be evicted for the group."""

    namespace: str
    name: str
    node: str
    priority: int


class GroupPreemption(Answer, frozen=True):
    """Whom the group would evict, and the nodes that its members would wait for."""

    nominated_nodes: dict[str, str]
    victims: tuple[GroupVictim, ...]
    broken_budgets: int
    disrupted_groups: int


class PlacementAnswer(Answer, frozen=True):
    """A placement that the group was tried in."""

    name: str
    node_count: int
    fits: bool
    message: str
    points: Annotated[int | None, Meta(description="Null: it was not compared with others.")]
    chosen: bool


class GroupSituation(Answer, frozen=True):
    """What is true of the group now, whatever would be decided."""

    condition: ReportedGroupCondition | None
    minimum: Annotated[int | None, Meta(description="How many members must have nodes.")]
    on_nodes: Annotated[dict[str, str], Meta(description="By member that has a node its node.")]
    of_other_schedulers: Annotated[
        dict[str, str], Meta(description="By member that another scheduler decides about, that scheduler.")
    ]
    in_service: Annotated[
        InServiceAnswer | None, Meta(description="What only the running service knows; null: it was not asked.")
    ]


class PodGroupExplanation(Answer, frozen=True, kw_only=True):
    """Where the members of a pod group go and why."""

    api_version: Literal["explain.kscheduler.io/v1"] = API_VERSION
    kind: Literal["PodGroupExplanation"] = "PodGroupExplanation"
    id: Annotated[str, Meta(description="The scenario's id, or else the group.")]
    pod_group: Annotated[str, Meta(description="NAMESPACE/NAME.")]
    error: Annotated[str | None, Meta(description="Why the group could not be judged.")]
    pre_enqueue: None = None
    pre_filter: None = None
    pre_filter_nodes: None = None
    filter: None = None
    feasible: None = None
    scores: None = None
    best: None = None
    preemption: GroupPreemption | None
    message: Annotated[str, Meta(description="What the group lacks; empty where it lacks nothing.")]
    outcome: Annotated[GroupOutcomeAnswer | None, Meta(description="Null where there is an `error`.")] = field(
        name="podGroupOutcome"
    )
    devices: Annotated[
        dict[str, tuple[ClaimedDevice, ...]] | None,
        Meta(description="By member that gets a node the devices of its claims there; null if no claim gets any."),
    ]
    placements: tuple[PlacementAnswer, ...]
    suggestions: Annotated[
        tuple[SuggestionAnswer, ...] | None,
        Meta(
            description="As of a pod; `nodes`: on how many nodes the members would be. Null: none were looked for, or "
            "the group fits."
        ),
    ]
    situation: GroupSituation
    emulation_version: EmulationVersion
    notes: Annotated[Names, Meta(description="What could not be read or had to be assumed.")]


class ExplanationList(Answer, frozen=True, kw_only=True):
    """The answers about new pods, in the order of their manifests, and then those about pod groups."""

    api_version: Literal["explain.kscheduler.io/v1"] = API_VERSION
    kind: Literal["ExplanationList"] = "ExplanationList"
    items: Annotated[tuple[Any, ...], Meta(description="Each of kind `PodExplanation` or `PodGroupExplanation`.")]


# --- reading and changing answers -------------------------------------------------------------------------------------


class _Kind(msgspec.Struct):
    kind: str


_KIND: Final = msgspec.json.Decoder(_Kind)
_OF_POD: Final = msgspec.json.Decoder(PodExplanation)
_OF_GROUP: Final = msgspec.json.Decoder(PodGroupExplanation)


def decoded_explanation(body: bytes) -> PodExplanation | PodGroupExplanation:
    """The answer that another process of this version has encoded. Raises `msgspec.ValidationError`."""
    is_of_group = _KIND.decode(body).kind == "PodGroupExplanation"
    return _OF_GROUP.decode(body) if is_of_group else _OF_POD.decode(body)


def with_commands(
    answer: PodExplanation | PodGroupExplanation, command: Callable[[str], str]
) -> PodExplanation | PodGroupExplanation:
    """The answer with each command that it suggests made anew."""
    if not answer.suggestions:
        return answer
    suggestions = tuple(msgspec.structs.replace(each, command=command(each.command)) for each in answer.suggestions)
    return msgspec.structs.replace(answer, suggestions=suggestions)
