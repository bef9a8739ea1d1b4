"""Suggestions: what to change so that a pod, or most of the pods that wait for one reason, would get a node."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kscheduler.answers import ReadAnswer


class PatchOperation(ReadAnswer, frozen=True):
    """A step of a patch (RFC 6902)."""

    op: Literal["add", "remove", "replace"]
    path: str
    value: Any = UNSET


class ChangeAnswer(ReadAnswer, frozen=True):
    """What to change of one object: a patch, or that it goes."""

    resource: Annotated[str, Meta(description="As in the paths of the API.")]
    namespace: Annotated[str, Meta(description="Empty for kinds without namespaces.")]
    name: str
    patch: Annotated[tuple[PatchOperation, ...] | UnsetType, Meta(description="RFC 6902.")] = UNSET
    delete: Annotated[Literal[True] | UnsetType, Meta(description="The object goes.")] = UNSET


class StepAnswer(ReadAnswer, frozen=True):
    """One thing that is changed."""

    kind: str
    facts: Annotated[dict[str, Any], Meta(description="The numbers and names of the text.")]


class SuggestionAnswer(ReadAnswer, frozen=True):
    """A change after which the cycle finds a node."""

    kind: Annotated[
        str, Meta(description="The kind of its step; of two steps both kinds, with a plus sign between them.")
    ]
    text: Annotated[str, Meta(description="The change in words.")]
    nodes: Annotated[int, Meta(description="How many nodes the pod would fit on.", ge=1)]
    command: Annotated[
        str,
        Meta(
            description="A line for a shell that makes the change with kubectl, by the flags with which the cluster "
            "was asked; empty where kubectl cannot."
        ),
    ]
    command_note: Annotated[
        str,
        Meta(
            description="What to know before running the command, such as that it deletes the pod and creates it "
            "again, or why there is none: a Job would make the pod anew without the change; usually empty."
        ),
    ]
    changes: Annotated[
        tuple[ChangeAnswer, ...],
        Meta(
            description="What to change, one entry per object. With a patch that adds the empty path the object is "
            "new. Empty where no object changes it: a plugin or an extender says no."
        ),
    ]
    steps: Annotated[
        tuple[StepAnswer, ...],
        Meta(description="What is changed, one entry per thing.", min_length=1, max_length=2),
    ]


class CommonSuggestion(ReadAnswer, frozen=True):
    """The change that frees most of a reason's pods, and how many of them. Without the counts: of a pod group."""

    pod: Annotated[str, Meta(description="NAMESPACE/NAME of the pod for which it was found.")]
    kind: str
    text: str
    nodes: int
    command: str
    command_note: str
    changes: tuple[ChangeAnswer, ...]
    steps: tuple[StepAnswer, ...]
    frees: Annotated[int | UnsetType, Meta(description="Of those that were tried, how many would have a node.")] = UNSET
    tried: int | UnsetType = UNSET
    alike: Annotated[int | UnsetType, Meta(description="Pods with the spec of the one above, itself among them.")] = (
        UNSET
    )
    looked: Annotated[
        int | UnsetType, Meta(description="Among how many of the pods these were counted, the oldest.")
    ] = UNSET

    @classmethod
    def of(cls, pod: str, suggestion: SuggestionAnswer, **counts: int) -> "CommonSuggestion":
        """A suggestion for one pod, with the counts for all."""
        fields = {**msgspec.structs.asdict(suggestion), **counts}
        return cls(pod, **fields)

    def freed(self, count: int) -> str:
        """How many of the reason's pods it helps: stands behind the number of nodes; nothing of a pod that waits alone.

        An older service does not count those that are alike.
        """
        frees, tried = self.frees, self.tried
        if frees is UNSET or tried is UNSET or count == 1:
            return ""
        alike = tried if self.alike is UNSET else self.alike
        looked = count if self.looked is UNSET else min(self.looked, count)
        if tried == count:
            return f"; helps all {count}" if frees == count else f"; helps {frees} of the {count}"
        among = f"the {count}" if looked == count else f"the {looked} oldest of {count}"
        if looked == 1:
            return f"; helps this one of the {count}, the only one that was looked at"
        others = looked - alike
        rest = f"{others} others have another spec and were" if others > 1 else "1 other has another spec and was"
        if alike == 1:
            return f"; helps this one of {among}; {rest} not tried"
        helped = f"{frees} of them" if frees < tried else "both" if tried == 2 else f"all {tried}"
        if alike == looked:
            which = "" if looked == count else ", which have the same spec"
            return f"; tried for {tried} of {among}{which}, helps {helped}"
        which = "" if tried == alike else f"tried for {tried} of them, "
        return f"; {alike} of {among} have the same spec: {which}helps {helped}; {rest} not tried"


class HelpingChange(ReadAnswer, frozen=True):
    """What was found for the pods that wait for one reason."""

    change: CommonSuggestion | None = None
    first_step: CommonSuggestion | None = None
    """Where there is no change: what must be done before any other helps."""
    left_off: str | None = None
    """Why there is none, or perhaps a better one: the search was left off."""
