"""How the pod stands, as the API server shows it: bound, finished, waiting for a volume, last told what.

The cycle answers "where would it go now". Whether the answer matters depends on what has happened already. What is
shown here is only what anybody can read from the pod and its claims; whether a pod is in the queue, backs off or waits
for Permit only the running service knows, and the text says so instead of guessing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.api.storage import SELECTED_NODE, PersistentVolumeClaim, StorageClass
from kscheduler.framework.volumes import claim_name

ASK_THE_SERVICE: Final = (
    "only the running service knows: its log, and GET /waiting-pods (kscheduler run --permit-token-file)"
)


class Standing(Enum):
    """Whether there is anything to schedule."""

    PENDING = "Pending"
    BOUND = "Bound"
    TERMINATING = "Terminating"
    FINISHED = "Finished"
    NOT_SERVED = "NotServed"
    NEW = "New"
    """It does not exist yet."""


@dataclass(frozen=True, slots=True)
class ClaimState:
    """One of the pod's claims."""

    name: str
    exists: bool = True
    is_bound: bool = False
    volume: str = ""
    storage_class: str = ""
    binding_mode: str = ""
    provisioner: str = ""
    selected_node: str = ""
    """Where a scheduler has asked for the volume to be made."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the API server shows of a pod, or nothing for a scenario from a file."""

    standing: Standing = Standing.PENDING
    is_live: bool = False
    """Whether somebody has looked: a scenario's pod has no past."""
    phase: str = ""
    node_name: str = ""
    deleted_at: str = ""
    condition: Condition | None = None
    """PodScheduled."""
    nominated_node: str = ""
    claims: tuple[ClaimState, ...] = ()
    scheduler_name: str = ""
    served: tuple[str, ...] = ()
    """The profiles that are served here."""
    served_by: str = ""
    """Where that is known from: a file, a flag, the default."""
    origin: str = ""
    """Of a pod that does not exist: the object that it would come from."""

    @property
    def is_hypothetical(self) -> bool:
        """Whether the decision is about a pod that nobody here is going to schedule."""
        return self.standing in (Standing.BOUND, Standing.NOT_SERVED)

    @property
    def waits_for_volumes(self) -> tuple[ClaimState, ...]:
        """Claims whose volume has been asked for and is not there: the pod waits in PreBind, or did so."""
        return tuple(one for one in self.claims if one.exists and not one.is_bound and one.selected_node)


NO_SITUATION: Final = Situation()


def standing_of(pod: Pod, served: Iterable[str]) -> Standing:
    """The first that holds: finished, being deleted, on a node, nobody's, pending."""
    if pod.is_terminal:
        return Standing.FINISHED
    if pod.metadata.deletion_timestamp is not None:
        return Standing.TERMINATING
    if pod.spec.node_name:
        return Standing.BOUND
    return Standing.PENDING if pod.spec.scheduler_name in served else Standing.NOT_SERVED


def claim_states(
    pod: Pod, claims: Iterable[PersistentVolumeClaim], classes: Iterable[StorageClass]
) -> tuple[ClaimState, ...]:
    """The pod's claims in the order of its volumes, each once."""
    by_key = {one.key: one for one in claims}
    by_name = {one.metadata.name: one for one in classes}
    names = (claim_name(pod, volume) for volume in pod.spec.volumes)
    keys = dict.fromkeys(name for name in names if name is not None)
    return tuple(_state(name, by_key.get(f"{pod.metadata.namespace}/{name}"), by_name) for name in keys)


def _state(name: str, claim: PersistentVolumeClaim | None, classes: dict[str, StorageClass]) -> ClaimState:
    if claim is None:
        return ClaimState(name, exists=False)
    storage_class = classes.get(claim.storage_class)
    return ClaimState(
        name=name,
        is_bound=claim.is_fully_bound,
        volume=claim.spec.volume_name,
        storage_class=claim.storage_class,
        binding_mode=(storage_class.volume_binding_mode or "") if storage_class is not None else "",
        provisioner=storage_class.provisioner if storage_class is not None else "",
        selected_node=claim.metadata.annotations.get(SELECTED_NODE, ""),
    )


def situation_lines(situation: Situation, *, fits: bool, event: str = "") -> Iterator[str]:
    """What a reader has to know of a live pod beside the decision; nothing for a scenario.

    `event` is what the decision says in its own event: a condition with the same text need not repeat it.
    """
    if not situation.is_live:
        return
    if situation.standing is Standing.NOT_SERVED:
        yield f"served here: {', '.join(situation.served)} ({situation.served_by})"
    condition = situation.condition
    if condition is not None:
        since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
        reason = f" ({condition.reason})" if condition.reason else ""
        message = f": {condition.message}" if condition.message else ""
        if event and condition.message == event:
            message = ", with the same text as the event below"
        yield f"condition PodScheduled={condition.status}{reason}{since}{message}"
    if situation.standing is not Standing.PENDING:
        return
    yield from _waiting_lines(situation)
    if fits:
        yield from _why_not_bound(situation)


def _waiting_lines(situation: Situation) -> Iterator[str]:
    if situation.nominated_node:
        yield f"nominated to {situation.nominated_node} (status.nominatedNodeName)"
    for claim in situation.claims:
        if not claim.exists:
            yield f"claim {claim.name} does not exist"
        elif not claim.is_bound and claim.selected_node:
            maker = claim.provisioner or "its provisioner"
            yield (
                f"claim {claim.name} waits for its volume: a scheduler has selected node {claim.selected_node}, and "
                f"{maker} has not made it yet; the pod is bound when that is done"
            )
        elif not claim.is_bound:
            mode = f", {claim.binding_mode}" if claim.binding_mode else ""
            yield f"claim {claim.name} is not bound (class {claim.storage_class or 'none'}{mode})"


def _why_not_bound(situation: Situation) -> Iterator[str]:
    if situation.waits_for_volumes:
        return
    waits = f"whether it is in the queue, backs off or waits for Permit {ASK_THE_SERVICE}"
    if situation.nominated_node:
        # written for a preemptor, and for a pod that waits for Permit or a volume (NominatedNodeNameForExpectation)
        told = "a scheduler expects it on that node; whether it waits for Permit or is just being bound"
        yield f"{told} {ASK_THE_SERVICE}"
    elif situation.condition is None:
        yield f"no scheduler has said anything about it yet (no PodScheduled condition); {waits}"
    elif situation.condition.status == "False":
        yield f"it fits now, so the condition is of an earlier try; {waits}"
