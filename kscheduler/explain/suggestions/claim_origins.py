"""Claims that a controller makes from a template, and why no command changes them.

Deleted, such a claim comes back at once as its template has it, and a create that follows ends in AlreadyExists. So the
template has to change, which is not in one command: a StatefulSet's volumeClaimTemplates are immutable, and those of a
pod's ephemeral volumes are part of its spec.

    claim data-db-0 of pod db-0      volumeClaimTemplate data of StatefulSet db
    claim web-scratch of pod web     ephemeral volume scratch of the pod
Nor does a command change what only the file of a new pod has. And a claim, or a ResourceClaimTemplate, that others use
as well is changed for them, too, which has to be said.
"""

from collections.abc import Sequence
from typing import Final

from kscheduler.api.core import Pod, Volume
from kscheduler.api.kinds import RESOURCE_CLAIM_TEMPLATES
from kscheduler.explain.situation import Situation
from kscheduler.explain.suggestions.makers import maker_of, owner_kind_of
from kscheduler.explain.suggestions.suggestion import ChangeKind, Suggestion
from kscheduler.scenario.scenario import ClusterObjects

_OF_CLAIMS: Final = (ChangeKind.CLAIM_CLASS, ChangeKind.CLAIM_SIZE)
# Changes of a claim for devices, or of the template that it is made from.
OF_DEVICES: Final = (
    ChangeKind.DEVICE_COUNT,
    ChangeKind.DEVICE_SELECTOR,
    ChangeKind.DEVICE_CONSTRAINT,
    ChangeKind.DEVICE_TOLERATION,
    ChangeKind.DEVICE_CLASS,
)
_TEMPLATES: Final = RESOURCE_CLAIM_TEMPLATES.plural
_MOST_NAMED: Final = 3
_STATEFUL_SET: Final = "StatefulSet"


def only_in_the_file(suggestion: Suggestion, situation: Situation) -> str:
    """Where the first object stands that the suggestion changes and that comes with the new pod; empty if none does."""
    for step in suggestion.steps:
        template = step.facts.get("template")
        for change in step.changes:
            key = (
                (_TEMPLATES, change.namespace, template)
                if template
                else (change.resource, change.namespace, change.name)
            )
            if key in situation.of_file:
                name = f"ResourceClaimTemplate {key[2]}" if template else f"{key[2]} ({key[0]})"
                return f"{name} is in the file: change it in the file"
    return ""


def shared_with(suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> str:
    """The other pods for which a claim or its template would change as well; empty where there is none."""
    notes: dict[str, None] = {}
    for step in suggestion.steps:
        if step.kind not in OF_DEVICES:
            continue
        template, claim = str(step.facts["template"]), str(step.facts["claim"])
        users = [
            each.metadata.name
            for each in objects.pods
            if each.metadata.namespace == pod.metadata.namespace
            and each.metadata.name != pod.metadata.name
            and not each.is_terminal
            and any(
                entry.resource_claim_template_name == template if template else entry.resource_claim_name == claim
                for entry in each.spec.resource_claims
            )
        ]
        if users:
            what = f"ResourceClaimTemplate {template}" if template else f"claim {claim}"
            notes[f"{what} is also that of {_named(sorted(users))}"] = None
    return "; ".join(notes)


def _named(pods: Sequence[str]) -> str:
    if len(pods) == 1:
        return f"pod {pods[0]}"
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    return f"pods {', '.join(pods[:_MOST_NAMED])}{more}"


def made_from_a_template(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
    """What has to be done for the first claim of the suggestion that a controller makes; empty if there is none.

    `is_new`: the pod is only a manifest yet.
    """
    claims = (str(step.facts["claim"]) for step in suggestion.steps if step.kind in _OF_CLAIMS)
    return next((note for claim in claims if (note := _note(claim, pod, objects, is_new=is_new))), "")


def _note(claim: str, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None and claim == f"{pod.metadata.name}-{volume.name}":
            head = f"claim {claim} is made from the volumeClaimTemplate of the pod's ephemeral volume {volume.name}"
            return f"{head}: change that one, and make the pod again"
        if volume.persistent_volume_claim is not None and _is_of_a_set(claim, volume, pod):
            return _of_a_stateful_set(claim, volume.name, pod, objects, is_new=is_new)
    return ""


def set_that_makes(claim: str, volume: Volume, pod: Pod, objects: ClusterObjects) -> str:
    """`statefulset/db`, if it makes the claim of this volume from a template; else empty."""
    maker = maker_of(pod, objects)
    return maker.text if maker is not None and _is_of_a_set(claim, volume, pod) else ""


def _is_of_a_set(claim: str, volume: Volume, pod: Pod) -> bool:
    """Whether the names are those that a StatefulSet gives."""
    return owner_kind_of(pod) == _STATEFUL_SET and claim == f"{volume.name}-{pod.metadata.name}"


def _of_a_stateful_set(claim: str, template: str, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
    if is_new:
        return f"claim {claim} is made from volumeClaimTemplate {template}: change it in the manifest"
    maker = maker_of(pod, objects)
    head = f"no single command does it: claim {claim} is made from volumeClaimTemplate {template}"
    rest = "claims of other replicas are made from it, too"
    if maker is None or maker.kind != _STATEFUL_SET or not maker.is_changeable:
        return f"{head}, which {maker.text if maker is not None else 'its owner'} has set: change it there; {rest}"
    return (
        f"{head} of {maker.text}, which cannot be changed in place: delete it with --cascade=orphan, apply "
        f"it with the changed template, then delete claim {claim} and pod {pod.metadata.name}; {rest}"
    )
