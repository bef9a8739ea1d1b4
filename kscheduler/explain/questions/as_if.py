"""The cluster as it would be with a new pod, including the owners and claims that come with it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import KINDS, PODS
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import PersistentVolumeClaim, StorageClass, default_class
from kscheduler.explain.questions.question import Question, question_about
from kscheduler.explain.questions.serving import Serving
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
        objects={plural: list(found) for plural, found in besides.objects.items() if plural != PODS.plural}
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
    fresh = msgspec.structs.replace(pod, metadata=nameless)
    return question_about(fresh, cluster, served, new.where, tuple(notes), new.origin)


def locally_defaulted(new: NewPod, known: Manifests, default_pod: DefaultPod) -> Pod:
    """The pod with the defaults of the embedded API server. Raises `ScenarioError`."""
    default_pod_here(new.tree, known, default_pod, new.where)
    pod = read_object(Document(new.tree, new.where), PODS, Manifests(), default_pod)
    assert isinstance(pod, Pod)  # noqa: S101  that is the struct of PODS
    return pod


def merged(objects: ClusterObjects, more: Manifests) -> ClusterObjects:
    """The cluster with further objects; an object replaces another of the same name."""
    fields: dict[str, Any] = {}
    for plural in KINDS:
        found: dict[str, KubeObject] = {obj.key: obj for obj in getattr(objects, plural)}
        found.update((obj.key, obj) for obj in more.objects.get(plural, ()))
        fields[plural] = tuple(found.values())
    fields["persistentvolumeclaims"] = tuple(
        _with_default_class(claim, fields["storageclasses"]) for claim in fields["persistentvolumeclaims"]
    )
    return ClusterObjects(**fields)


def _with_default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    """The claim with the default class if it is new and names none, as the API server's admission does."""
    if claim.metadata.uid or claim.spec.storage_class_name is not None or claim.storage_class:
        return claim
    chosen = default_class(classes)
    if chosen is None:
        return claim
    spec = msgspec.structs.replace(claim.spec, storage_class_name=chosen.metadata.name)
    return msgspec.structs.replace(claim, spec=spec)
