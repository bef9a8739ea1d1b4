"""The cluster as it would be with a new pod, including the owners and claims that come with it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import KINDS, PODS
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import PersistentVolumeClaim, StorageClass, default_class
from kscheduler.explain.questions.question import Question, question_about, with_claim_templates
from kscheduler.explain.questions.serving import Serving
from kscheduler.whatif.device_claims.from_templates import specs_of_made, with_claims
from kscheduler.whatif.manifests import KIND_BY_NAME, DefaultPod, Manifests, default_pod_here, read_object
from kscheduler.whatif.new_pods import NewPod
from kscheduler.whatif.scenario import ClusterObjects, Document


def question_about_new(
    new: NewPod, pod: Pod, objects: ClusterObjects, besides: Manifests, served: Serving, default_pod: DefaultPod
) -> Question:
    """Where a new pod would go; `besides` are the other objects of its file, which are assumed to exist.

    The pod gets no UID: the random UID of a dry run would break ties by chance.
    """
    added = Manifests(
        objects={plural: list(found) for plural, found in besides.objects.items() if plural != PODS.plural},
        claim_templates=besides.claim_templates,
    )
    for document in new.besides:
        kind = KIND_BY_NAME[str(document.tree["kind"])]
        added.objects[kind.plural].append(read_object(document, kind, added, default_pod))
    cluster = merged(objects, added)
    exists = any(existing.key == pod.key for existing in objects.pods)
    notes = [*new.notes, *besides.notes, *added.notes]
    if exists:
        notes.append(f"a pod {pod.key} exists already; this explains the pod of {new.where}")
    nameless = msgspec.structs.replace(pod.metadata, uid="", deletion_timestamp=None)
    # Nothing has happened to it yet: what a dry run says of it, or the file of a pod that was there, is not its story.
    status = msgspec.structs.replace(pod.status, conditions=(), nominated_node_name="")
    unmet = msgspec.structs.replace(pod, metadata=nameless, status=status)
    fresh, cluster, missing = _with_claims(unmet, cluster)
    notes += missing
    question = question_about(fresh, cluster, served, new.where, tuple(notes), new.origin)
    return with_claim_templates(question, _templates_of(pod, cluster))


def _with_claims(pod: Pod, objects: ClusterObjects) -> tuple[Pod, ClusterObjects, list[str]]:
    """The pod with the claims that would be made for it, the cluster with them, and a note per missing template."""
    by_key = {template.key: template.spec.spec for template in objects.resourceclaimtemplates}
    taken = {claim.key for claim in objects.resourceclaims}
    after = with_claims(pod, specs_of_made(objects.pods, objects.resourceclaims) | by_key, taken.__contains__)
    claims = (*objects.resourceclaims, *after.claims)
    notes = [
        f"ResourceClaimTemplate {template}, which claim {entry} of {pod.key} is made from, is not known: the claim is "
        "not made"
        for entry, template in after.missing
    ]
    return after.pod, msgspec.structs.replace(objects, resourceclaims=claims) if after.claims else objects, notes


def _templates_of(pod: Pod, objects: ClusterObjects) -> dict[str, ResourceClaimTemplate | None]:
    """By name those that the pod's claims are made from, as far as they are known."""
    names = {entry.resource_claim_template_name for entry in pod.spec.resource_claims}
    return {
        template.metadata.name: template
        for template in objects.resourceclaimtemplates
        if template.metadata.name in names and template.metadata.namespace == pod.metadata.namespace
    }


def locally_defaulted(new: NewPod, known: Manifests, default_pod: DefaultPod) -> Pod:
    """The pod with the defaults of the embedded API server. Raises `ScenarioError`."""
    default_pod_here(new.tree, known, default_pod, new.where)
    pod = read_object(Document(new.tree, new.where), PODS, Manifests(), default_pod)
    assert isinstance(pod, Pod)  # noqa: S101  that is the struct of PODS
    return pod


def merged(objects: ClusterObjects, more: Manifests) -> ClusterObjects:
    """The cluster with further objects; an object replaces another of the same name. Groups are not among them."""
    fields: dict[str, Any] = {
        plural: _replaced(getattr(objects, plural), more.objects.get(plural, ())) for plural in KINDS
    }
    fields["resourceclaimtemplates"] = _replaced(objects.resourceclaimtemplates, more.claim_templates)
    fields["persistentvolumeclaims"] = tuple(
        _with_default_class(claim, fields["storageclasses"]) for claim in fields["persistentvolumeclaims"]
    )
    return msgspec.structs.replace(objects, **fields)


def _replaced(before: Iterable[KubeObject], more: Iterable[KubeObject]) -> tuple[KubeObject, ...]:
    found = {obj.key: obj for obj in before}
    found.update((obj.key, obj) for obj in more)
    return tuple(found.values())


def _with_default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    """The claim with the default class if it is new and names none, as the API server's admission does."""
    if claim.metadata.uid or claim.spec.storage_class_name is not None or claim.storage_class:
        return claim
    chosen = default_class(classes)
    if chosen is None:
        return claim
    spec = msgspec.structs.replace(claim.spec, storage_class_name=chosen.metadata.name)
    return msgspec.structs.replace(claim, spec=spec)
