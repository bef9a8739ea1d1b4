"""A claim's requirements, and whether a volume meets them; pure."""

from collections.abc import Iterable

from kscheduler.api import quantity
from kscheduler.api.codec import convert
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import STORAGE_CLASSES
from kscheduler.api.machinery.selectors import labels_match
from kscheduler.api.storage import BETA_STORAGE_CLASS, StorageClass, default_class
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import labels_of

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
PROVISIONER_BETA = "volume.beta.kubernetes.io/storage-provisioner"


def annotations_of(value: Object) -> dict[str, str]:
    """The object's annotations."""
    annotations: dict[str, str] = value["metadata"].get("annotations") or {}
    return annotations


def class_of(value: Object) -> str | None:
    """The name of a claim's or volume's class; empty means explicitly none, None means not set."""
    name = annotations_of(value).get(BETA_STORAGE_CLASS, (value.get("spec") or {}).get("storageClassName"))
    return None if name is None else str(name)


def storage_class(view: View, claim: Object) -> Object | None:
    """The class of a claim."""
    name = class_of(claim)
    return view.get(STORAGE_CLASSES, ("", name)) if name else None


def default_class_name(view: View) -> str | None:
    """The name of the default class."""
    chosen = default_class(convert(storage, StorageClass) for storage in view.all(STORAGE_CLASSES))
    return None if chosen is None else chosen.metadata.name


def waits_for_pod(storage: Object | None) -> bool:
    """Whether the class binds only after a pod has been placed."""
    return storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer"


def refers_to(volume: Object, claim: Object) -> bool:
    """Whether the volume is reserved for this claim."""
    reference = volume["spec"].get("claimRef") or {}
    metadata = claim["metadata"]
    names = reference.get("namespace"), reference.get("name")
    return names == (metadata["namespace"], metadata["name"]) and reference.get("uid", "") in ("", metadata["uid"])


def reference_to(claim: Object) -> Object:
    """A volume's reference to its claim."""
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "v1",
        "resourceVersion": metadata["resourceVersion"],
    }


def best_match(volumes: Iterable[Object], claim: Object) -> Object | None:
    """The smallest free volume that meets the claim's requirements."""
    fitting = [volume for volume in volumes if _fits(volume, claim)]
    return min(fitting, key=lambda volume: (_size(volume), volume["metadata"]["name"]), default=None)


def requested(claim: Object) -> str:
    """The storage that the claim requests, as text."""
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _size(volume: Object) -> int:
    return quantity.value((volume["spec"].get("capacity") or {}).get("storage", "0"))


def _fits(volume: Object, claim: Object) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    if spec.get("claimRef") or "deletionTimestamp" in volume["metadata"]:
        return False
    if (volume.get("status") or {}).get("phase") not in {"Available", "Pending"}:
        return False
    if (class_of(volume) or "") != (class_of(claim) or "") or _size(volume) < quantity.value(requested(claim)):
        return False
    if spec.get("volumeMode", "Filesystem") != wanted.get("volumeMode", "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    selector = wanted.get("selector")
    return not selector or labels_match(selector, labels_of(volume))
