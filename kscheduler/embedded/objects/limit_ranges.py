"""LimitRanges, as the admission plugin LimitRanger applies them: to each new pod and to claims of their namespace.

A container gets the limits and requests that it does not have from `default` and `defaultRequest`; an annotation says
which. Then amounts below `min`, above `max` or too far apart are refused. So a pod may ask for more, or less, than its
manifest says, which is what a scheduler sees.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kscheduler.api.defaults.pods import containers_of, qos_class
from kscheduler.api.machinery import pod_amounts
from kscheduler.api.machinery.api_errors import Object, forbidden
from kscheduler.api.machinery.pod_amounts import Amounts
from kscheduler.api.machinery.resources import BY_KEY, CLAIMS, PODS, ServedResource
from kscheduler.cel.kubernetes.quantities import Quantity, read
from kscheduler.embedded.objects.store import ObjectStore

LIMIT_RANGES = BY_KEY["limitranges"]
_ANNOTATION = "kubernetes.io/limit-ranger"


def fill_in(store: ObjectStore, pod: Object) -> None:
    """Give a new pod's containers the amounts that the LimitRanges of its namespace have for them."""
    for limit_range in _of_namespace(store, pod["metadata"]["namespace"]):
        reported = list(_filled(limit_range, pod["spec"]))
        if reported:
            annotations = pod["metadata"].get("annotations") or {}
            text = f"LimitRanger plugin set: {'; '.join(reported)}"
            pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: text}
            pod["status"]["qosClass"] = qos_class(pod["spec"])


def _of_namespace(store: ObjectStore, namespace: str) -> list[Object]:
    records = store.collection(LIMIT_RANGES.collection).records.values()
    return [record.value for record in records if record.value["metadata"]["namespace"] == namespace]


def _items(limit_range: Object, kind: str) -> Iterator[Object]:
    return (item for item in (limit_range.get("spec") or {}).get("limits") or () if item.get("type") == kind)


def _filled(limit_range: Object, spec: Object) -> Iterator[str]:
    """Fills in each container, and says of which what."""
    requests: Object = {}
    limits: Object = {}
    for item in _items(limit_range, "Container"):
        requests |= item.get("defaultRequest") or {}
        limits |= item.get("default") or {}
    for kind, containers in (("container", spec.get("containers")), ("init container", spec.get("initContainers"))):
        for container in containers or ():
            resources = container["resources"]
            for field, defaults in (("requests", requests), ("limits", limits)):
                missing = sorted(defaults.keys() - (resources.get(field) or {}).keys())
                if missing:
                    own = resources.get(field) or {}
                    resources[field] = {**own, **{name: defaults[name] for name in missing}}
                    yield f"{', '.join(missing)} {field.removesuffix('s')} for {kind} {container.get('name', '')}"


def check(store: ObjectStore, resource: ServedResource, value: Object) -> None:
    """Check a new pod, or a claim, against the LimitRanges of its namespace. Raises 403."""
    judge = _VALIDATORS.get(resource)
    if judge is None:
        return
    for limit_range in _of_namespace(store, value["metadata"]["namespace"]):
        wrong = list(judge(limit_range, value))
        if wrong:
            reason = wrong[0] if len(wrong) == 1 else f"[{', '.join(dict.fromkeys(wrong))}]"
            raise forbidden(resource.plural, resource.group, value["metadata"]["name"], reason)


def _judged_pod(limit_range: Object, pod: Object) -> Iterator[str]:
    spec = pod["spec"]
    for item in _items(limit_range, "Container"):
        containers = [*containers_of(spec, with_init=False), *(spec.get("initContainers") or ())]
        for container in containers:
            amounts = container.get("resources") or {}
            yield from _judged(item, *(pod_amounts.read(amounts.get(field) or {}) for field in ("requests", "limits")))
    for item in _items(limit_range, "Pod"):
        yield from _judged(item, *(pod_amounts.of_pod(spec, field) for field in ("requests", "limits")))


def _judged(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = item["type"]
    for name, least in sorted((item.get("min") or {}).items()):
        yield from _too_little(
            f"minimum {name} usage per {kind} is {least}", least, requests.get(name), limits.get(name)
        )
    for name, most in sorted((item.get("max") or {}).items()):
        text = f"maximum {name} usage per {kind} is {most}"
        yield from _too_much(text, most, "limit", limits.get(name), requests.get(name))
    for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        text = f"{name} max limit to request ratio per {kind} is {ratio}"
        yield from _too_far_apart(text, ratio, requests.get(name), limits.get(name))


def _judged_claim(limit_range: Object, claim: Object) -> Iterator[str]:
    requests = pod_amounts.read(((claim.get("spec") or {}).get("resources") or {}).get("requests") or {})
    for item in _items(limit_range, "PersistentVolumeClaim"):
        kind = item["type"]
        for name, least in sorted((item.get("min") or {}).items()):
            yield from _too_little(f"minimum {name} usage per {kind} is {least}", least, requests.get(name), None)
        for name, most in sorted((item.get("max") or {}).items()):
            yield from _too_much(
                f"maximum {name} usage per {kind} is {most}", most, "request", requests.get(name), None
            )


def _too_little(text: str, least: Any, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    if request is None:
        yield f"{text}.  No request is specified"
    elif _is_less(request, read(least)):
        yield f"{text}, but request is {request.text()}"
    elif limit is not None and _is_less(limit, read(least)):
        yield f"{text}, but limit is {limit.text()}"


def _too_much(text: str, most: Any, field: str, first: Quantity | None, request: Quantity | None) -> Iterator[str]:
    """`first`, called `field`, must be there."""
    if first is None:
        yield f"{text}.  No {field} is specified"
    elif _is_less(read(most), first):
        yield f"{text}, but {field} is {first.text()}"
    elif request is not None and _is_less(read(most), request):
        yield f"{text}, but request is {request.text()}"


def _too_far_apart(text: str, ratio: Any, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    if request is None or not request.sign():
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None or not limit.sign():
        yield f"{text}, but no limit is specified or limit is 0"
    else:
        provided = limit.as_float() / request.as_float()
        if provided > read(ratio).as_float():
            yield f"{text}, but provided ratio is {provided:f}"


def _is_less(one: Quantity, other: Quantity) -> bool:
    return one.fresh().compare(other.fresh()) < 0


_VALIDATORS: dict[ServedResource, Callable[[Object, Object], Iterator[str]]] = {
    PODS: _judged_pod,
    CLAIMS: _judged_claim,
}
