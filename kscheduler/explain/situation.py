"""The pod's state at the API server: bound, finished, waiting for a volume, its last condition.

The cycle answers "where would it go now". Whether that matters depends on the pod's state. Shown here is only what can
be read from the pod and its claims; only the running service knows whether a pod is in the queue, backs off or waits
for Permit, and the text says so instead of guessing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.api.storage import SELECTED_NODE, PersistentVolumeClaim, StorageClass
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.explain.answer import ClaimState, ConditionAnswer, DeviceWaitAnswer, PodSituation, PodState
from kscheduler.explain.in_service import InService, service_lines
from kscheduler.framework.cluster.volumes import claim_name
from kscheduler.scenario.fields import nearest
from kscheduler.scheduling.drift.prebind_waits import DeviceWait
from kscheduler.scheduling.failure import SCHEDULER_ERROR

__all__ = ["NO_SITUATION", "ObjectKey", "PodState", "Situation", "claim_states", "near_name", "pod_state_of"]

ASK_THE_SERVICE: Final = "only the running service can tell: `kubectl kscheduler why POD` asks it, as GET /explain does"


# The kind as in the API's paths, the namespace (empty for kinds without) and the name.
ObjectKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Situation:
    """A pod's state at the API server; empty for a scenario from a file."""

    pod_state: PodState = PodState.PENDING
    is_live: bool = False
    """Whether the state was read from a cluster; False for a scenario."""
    phase: str = ""
    node_name: str = ""
    deleted_at: str = ""
    condition: Condition | None = None
    """The condition PodScheduled."""
    nominated_node: str = ""
    claims: tuple[ClaimState, ...] = ()
    device_waits: tuple[DeviceWait, ...] = ()
    """Devices that are reserved for the pod and not ready: it waits in PreBind, or did so."""
    scheduler_name: str = ""
    served: tuple[str, ...] = ()
    """The profiles that are served here."""
    served_by: str = ""
    """The source of `served`: a file, a flag, the default."""
    is_presumed: bool = False
    """Whether nobody has said what the pod's scheduler is like: the default plugins are presumed."""
    origin: str = ""
    """For a new pod: the object that would create it."""
    of_file: frozenset[ObjectKey] = frozenset()
    """For a new pod: the other objects of its file. Whether the cluster has them, too, the file says what they are."""
    in_service: InService | None = None
    """What the running service knows; `None`: it was not asked."""
    not_evaluated: tuple[str, ...] = ()
    """Why the pod is not judged with the group that it names: the configuration does not follow its API."""

    @property
    def is_hypothetical(self) -> bool:
        """Whether this scheduler is not going to schedule the pod."""
        return self.pod_state in (PodState.BOUND, PodState.NOT_SERVED)

    @property
    def waits_for_volumes(self) -> tuple[ClaimState, ...]:
        """Claims with a requested volume that does not exist yet: the pod waits in PreBind, or did so."""
        return tuple(claim for claim in self.claims if claim.exists and not claim.is_bound and claim.selected_node)

    @property
    def answer(self) -> PodSituation | None:
        """For programs; `None` for a scenario."""
        if not self.is_live:
            return None
        condition, in_service = self.condition, self.in_service
        return PodSituation(
            pod_state=self.pod_state,
            phase=self.phase,
            node_name=self.node_name,
            deletion_timestamp=self.deleted_at or None,
            pod_scheduled=None
            if condition is None
            else ConditionAnswer(condition.status, condition.reason, condition.message, condition.last_transition_time),
            nominated_node_name=self.nominated_node,
            claims=self.claims,
            waits_for_volumes=tuple(claim.name for claim in self.waits_for_volumes),
            waits_for_devices=tuple(
                DeviceWaitAnswer(
                    wait.claim, wait.device, tuple(wait.conditions), wait.since or None, wait.until or None
                )
                for wait in self.device_waits
            ),
            served_scheduler_names=tuple(self.served),
            origin=self.origin or None,
            in_service=None if in_service is None else in_service.answer,
        )


NO_SITUATION: Final = Situation()


def pod_state_of(pod: Pod, served: Iterable[str]) -> PodState:
    """The first that applies: finished, being deleted, on a node, served by nobody here, pending."""
    if pod.is_terminal:
        return PodState.FINISHED
    if pod.metadata.deletion_timestamp is not None:
        return PodState.TERMINATING
    if pod.spec.node_name:
        return PodState.BOUND
    return PodState.PENDING if pod.spec.scheduler_name in served else PodState.NOT_SERVED


def claim_states(
    pod: Pod, claims: Iterable[PersistentVolumeClaim], classes: Iterable[StorageClass]
) -> tuple[ClaimState, ...]:
    """The pod's claims in the order of its volumes, without duplicates."""
    claims_by_key = {claim.key: claim for claim in claims}
    classes_by_name = {storage_class.metadata.name: storage_class for storage_class in classes}
    names = (claim_name(pod, volume) for volume in pod.spec.volumes)
    unique_names = dict.fromkeys(name for name in names if name is not None)
    return tuple(
        _state(name, claims_by_key.get(f"{pod.metadata.namespace}/{name}"), classes_by_name) for name in unique_names
    )


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


def situation_lines(situation: Situation, *, fits: bool, event: str = "", error: str = "") -> Iterator[str]:
    """Facts about a live pod in addition to the decision; nothing for a scenario.

    `event` is the text of the decision's event, told below, `error` why there is no decision, told above: what has the
    same text does not repeat it.
    """
    if not situation.is_live:
        return
    near = near_name(situation.scheduler_name, situation.served)
    if situation.pod_state is PodState.NOT_SERVED:
        served = f"served here: {', '.join(situation.served)} ({situation.served_by})"
        yield f"scheduler {situation.scheduler_name} decides about it, which is not {served}{near}"
        yield "answered by the default plugins under that name"
    elif situation.is_presumed and situation.pod_state in (PodState.PENDING, PodState.NEW):
        decides = f"scheduler {situation.scheduler_name} decides about it"
        yield f"{decides}, with the default plugins unless --config says more{near}"
    condition = situation.condition
    if condition is not None:
        since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
        reason = f" ({condition.reason})" if condition.reason else ""
        message = f": {condition.message}" if condition.message else ""
        if event and condition.message == event:
            message = ", with the same text as the event below"
        elif error and condition.message == error:
            message = ", with the same text"
        yield f"condition PodScheduled={condition.status}{reason}{since}{message}"
    if situation.pod_state is not PodState.PENDING:
        return
    yield from _waiting_lines(situation)
    if situation.in_service is not None:
        reported = {event, error} | ({condition.message} if condition is not None else set())
        waits = bool(situation.device_waits or situation.waits_for_volumes)
        yield from service_lines(situation.in_service, reported, waits=waits)
    elif fits:
        yield from _why_not_bound(situation)


def near_name(scheduler_name: str, others: Iterable[str]) -> str:
    """`; do you mean kscheduler?` for `kschedular`; empty if the name is like none of these."""
    known = [name for name in (*others, DEFAULT_SCHEDULER_NAME) if name != scheduler_name]
    near = "" if scheduler_name == DEFAULT_SCHEDULER_NAME else nearest(scheduler_name, known)
    return f"; do you mean {near}?" if near else ""


def _waiting_lines(situation: Situation) -> Iterator[str]:
    if situation.nominated_node:
        yield f"nominated to {situation.nominated_node} (status.nominatedNodeName)"
    yield from (wait.text for wait in situation.device_waits)
    for claim in situation.claims:
        if not claim.exists:
            yield f"claim {claim.name} does not exist"
        elif not claim.is_bound and claim.selected_node:
            maker = claim.provisioner or "its provisioner"
            yield (
                f"claim {claim.name} waits for its volume: a scheduler has selected node {claim.selected_node}, and "
                f"{maker} has not provisioned it yet; the pod is bound when it has"
            )
        elif not claim.is_bound:
            mode = f", {claim.binding_mode}" if claim.binding_mode else ""
            yield f"claim {claim.name} is not bound (class {claim.storage_class or 'none'}{mode})"


def _why_not_bound(situation: Situation) -> Iterator[str]:
    if situation.waits_for_volumes or situation.device_waits:
        return
    waits = f"whether it is in the queue, backs off or waits for Permit {ASK_THE_SERVICE}"
    if situation.nominated_node:
        # Set for a preemptor, and for a pod that waits for Permit or a volume (NominatedNodeNameForExpectation).
        expected = "a scheduler has nominated that node; whether it waits for Permit or is being bound"
        yield f"{expected} {ASK_THE_SERVICE}"
    elif situation.condition is None:
        yield f"no scheduler has reported anything about it yet (no PodScheduled condition); {waits}"
    elif situation.condition.status == "False" and situation.condition.reason == SCHEDULER_ERROR:
        yield f"by the rules known here it would fit now; the failure in the condition is not rechecked here; {waits}"
    elif situation.condition.status == "False":
        yield (
            "by the plugins known here it would fit now: the condition is from an earlier attempt, or from a scheduler "
            f"with other plugins (--config, --plugin); {waits}"
        )
