"""Deletes pods whose allocated device has a NoExecute taint that their claim does not tolerate.

Taints are those of slices and of DeviceTaintRules. Only tolerations that name the effect NoExecute count, as in
kube-controller-manager; `tolerationSeconds` count from the time of the taint, the fewest of those that match.
"""

from collections.abc import Iterator, Mapping

import msgspec

from kscheduler.api.core import Taint, Toleration
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time
from kscheduler.api.machinery.resources import (
    DEVICE_TAINT_RULES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ServedResource,
)
from kscheduler.embedded.controllers.engine.plan import Concerned, Delete, News, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import is_finished, is_terminating, itself, key_of, node_of
from kscheduler.embedded.objects.store import Change, Key
from kscheduler.framework.rules.node_match import covers

_COMPONENT = "device-taint-eviction-controller"
_NO_EXECUTE = "NoExecute"


class DeviceTaintEvictionController:
    """Keyed by claim."""

    name = _COMPONENT

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Claims; slices and rules that taint, which concern all claims."""
        return {
            RESOURCE_CLAIMS: itself,
            RESOURCE_SLICES: _concerned_by_slice,
            DEVICE_TAINT_RULES: _concerned_by_rule,
        }

    def reconcile(self, view: View, key: Key) -> Plan:
        """Delete the claim's pods whose time is over; look again for the next one."""
        plan = Plan()
        claim = view.get(RESOURCE_CLAIMS, key)
        left = _seconds_left(view, claim) if claim is not None else None
        if claim is None or left is None:
            return plan
        if left > 0:
            plan.look_again(left)
            return plan
        for consumer in (claim.get("status") or {}).get("reservedFor") or ():
            pod = view.get(PODS, (key[0], consumer["name"])) if consumer.get("resource") == "pods" else None
            if pod is None or pod["metadata"]["uid"] != consumer["uid"] or not node_of(pod):
                continue
            if not (is_terminating(pod) or is_finished(pod)):
                plan.add(News(pod, _COMPONENT, "DeviceTaintManagerEviction", "Marking for deletion"), Delete(PODS, pod))
        return plan


def _seconds_left(view: View, claim: Object) -> float | None:
    """Seconds until the claim's pods must go; None for never."""
    results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
    times = [
        left
        for result in results
        for taint in _taints(view, result)
        if (left := _left(view, result, taint)) is not None
    ]
    return min(times, default=None)


def _taints(view: View, result: Object) -> Iterator[Object]:
    """The NoExecute taints of an allocated device."""
    place = (result["driver"], result["pool"])
    for one in view.all(RESOURCE_SLICES):
        spec = one["spec"]
        if (spec["driver"], spec["pool"]["name"]) != place:
            continue
        for device in spec.get("devices") or ():
            if device["name"] == result["device"]:
                yield from (taint for taint in device.get("taints") or () if taint["effect"] == _NO_EXECUTE)
    for rule in view.all(DEVICE_TAINT_RULES):
        selector, taint = rule["spec"].get("deviceSelector"), rule["spec"]["taint"]
        if selector is None or taint["effect"] != _NO_EXECUTE:
            continue
        if all(selector.get(name) in {None, result[name]} for name in ("driver", "pool", "device")):
            yield taint


def _left(view: View, result: Object, taint: Object) -> float | None:
    """Seconds until the taint ends the use of the device; None if it is tolerated forever."""
    known = msgspec.convert(taint, Taint, strict=False)
    seconds: list[int] = []
    for toleration in result.get("tolerations") or ():
        is_meant = toleration.get("effect") == _NO_EXECUTE
        if not is_meant or not covers(msgspec.convert(toleration, Toleration, strict=False), known):
            continue
        if toleration.get("tolerationSeconds") is None:
            return None
        seconds.append(max(toleration["tolerationSeconds"], 0))
    since = parse_time(taint.get("timeAdded")) or view.now
    return min(seconds, default=0) - (view.now - since).total_seconds()


def _concerned_by_slice(view: View, change: Change) -> Iterator[Key]:
    devices = change.record.value["spec"].get("devices") or ()
    if any(taint["effect"] == _NO_EXECUTE for device in devices for taint in device.get("taints") or ()):
        yield from map(key_of, view.all(RESOURCE_CLAIMS))


def _concerned_by_rule(view: View, change: Change) -> Iterator[Key]:
    if change.record.value["spec"]["taint"]["effect"] == _NO_EXECUTE:
        yield from map(key_of, view.all(RESOURCE_CLAIMS))
