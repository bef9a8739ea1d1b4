"""The cluster as if new pods were there: with the owners and claims that would come with them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import KINDS, PODS
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import PersistentVolumeClaim, StorageClass, default_class
from kscheduler.explain.question import Question, question_about
from kscheduler.explain.serving import Serving
from kscheduler.whatif.manifests import KIND_BY_NAME, DefaultPod, Manifests, default_pod_here, read_object
from kscheduler.whatif.new_pods import NewPod
from kscheduler.whatif.scenario import ClusterObjects, Document


def question_about_new(
    new: NewPod, pod: Pod, objects: ClusterObjects, besides: Manifests, served: Serving, default_pod: DefaultPod
) -> Question:
    """Where a new pod would go; `besides` are the other objects of its file, which are taken to be there. It keeps
    no UID: one that a dry run has invented would break ties by chance.
    """
    its = Manifests(objects={plural: list(found) for plural, found in besides.objects.items() if plural != PODS.plural})
    for one in new.besides:
        kind = KIND_BY_NAME[str(one.tree["kind"])]
        its.objects[kind.plural].append(read_object(one, kind, its, default_pod))
    cluster = _merged(objects, its)
    exists = any(one.key == pod.key for one in objects.pods)
    notes = [*new.notes, *besides.notes, *its.notes]
    if exists:
        notes.append(f"a pod {pod.key} exists already; explained is the one of {new.where}")
    nameless = msgspec.structs.replace(pod.metadata, uid="", deletion_timestamp=None)
    fresh = msgspec.structs.replace(pod, metadata=nameless)
    return question_about(fresh, cluster, served, new.where, tuple(notes), new.origin)


def locally_defaulted(new: NewPod, known: Manifests, default_pod: DefaultPod) -> Pod:
    """The pod with the defaults that are known here. Raises `ScenarioError`."""
    default_pod_here(new.tree, known, default_pod, new.where)
    pod = read_object(Document(new.tree, new.where), PODS, Manifests(), default_pod)
    assert isinstance(pod, Pod)  # noqa: S101  that is the struct of PODS
    return pod


def _merged(objects: ClusterObjects, more: Manifests) -> ClusterObjects:
    """An object of the file takes the place of one with its name."""
    fields: dict[str, Any] = {}
    for plural in KINDS:
        found: dict[str, KubeObject] = {one.key: one for one in getattr(objects, plural)}
        found.update((one.key, one) for one in more.objects.get(plural, ()))
        fields[plural] = tuple(found.values())
    fields["persistentvolumeclaims"] = tuple(
        _with_default_class(one, fields["storageclasses"]) for one in fields["persistentvolumeclaims"]
    )
    return ClusterObjects(**fields)


def _with_default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    """As the API server's admission does it for a new claim that names no class."""
    if claim.metadata.uid or claim.spec.storage_class_name is not None or claim.storage_class:
        return claim
    chosen = default_class(classes)
    if chosen is None:
        return claim
    spec = msgspec.structs.replace(claim.spec, storage_class_name=chosen.metadata.name)
    return msgspec.structs.replace(claim, spec=spec)
