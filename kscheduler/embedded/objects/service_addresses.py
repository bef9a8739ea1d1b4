"""Addresses and node ports of Services: what is given to one is not given to another.

    create, update   keep what the old object had -> take what is named, or refuse -> give what is not named

Nothing listens at these addresses. They are there because manifests name them (`clusterIP` of a DNS service,
`nodePort`), and a real server refuses the second Service that names the same one. As there, a dry run refuses
neither an address that another Service has nor a port outside of the range.
"""

import uuid
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Final

from kscheduler.api.machinery.api_errors import FieldCause, Object, invalid
from kscheduler.api.machinery.field_rules import bad_value
from kscheduler.api.machinery.resources import SERVICES
from kscheduler.embedded.objects.store import ObjectStore

_ADDRESSES: Final = ip_network("10.96.0.0/16")
_NODE_PORTS: Final = range(30000, 32768)
_TAKEN_PORT = "provided port is already allocated"
_NO_SUCH_PORT = "provided port is not in the valid range. The range of valid ports is 30000-32767"
_ADDRESS_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
_OUTSIDE_FIELDS = ("externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts")
_NO_ADDRESS = "None"


def keep_allocated(old: Object, new: Object) -> None:
    """Carry over what the old Service was given and a new manifest does not name; drop what its new type has not."""
    before, after = old.get("spec") or {}, new.setdefault("spec", {})
    if _has_address(before) and _has_address(after):
        for name in _ADDRESS_FIELDS:
            if name in before:
                after.setdefault(name, before[name])
    elif not _has_address(after):
        _drop_unchanged(before, after, _ADDRESS_FIELDS)
    if _has_node_ports(before) and _has_node_ports(after):
        _keep_node_ports(before.get("ports") or [], after.get("ports") or [])
    elif not _has_node_ports(after):
        given = {port.get("nodePort") for port in before.get("ports") or ()}
        for port in after.get("ports") or ():
            if port.get("nodePort") in given:
                port.pop("nodePort", None)
        _drop_unchanged(before, after, _OUTSIDE_FIELDS)


def _drop_unchanged(before: Object, after: Object, names: tuple[str, ...]) -> None:
    for name in names:
        if name in after and after[name] == before.get(name):
            del after[name]


def _keep_node_ports(before: list[Object], after: list[Object]) -> None:
    by_name = {port.get("name", ""): port["nodePort"] for port in before if port.get("nodePort")}
    used = {port["nodePort"] for port in after if port.get("nodePort")}
    for port in after:
        known = by_name.get(port.get("name", ""))
        if not port.get("nodePort") and known and known not in used:
            port["nodePort"] = known
            used.add(known)


def allocate(store: ObjectStore, service: Object, *, dry_run: bool = False) -> None:
    """Give a new or changed Service its address and node ports. Raises 422 for what another one has."""
    spec, metadata = service["spec"], service["metadata"]
    if not _has_address(spec):
        return
    others = [
        record.value for key, record in store.collection(SERVICES.collection).records.items() if key != _key(service)
    ]
    # Where the search for free ones begins: repeatable for a seed, since the UID is drawn from it.
    start = uuid.UUID(metadata["uid"]).int
    causes = _wrong_address(spec, others, dry_run=dry_run)
    if not causes:
        _give_address(spec, others, start)
    if _has_node_ports(spec):
        causes += _give_ports(spec, others, start, dry_run=dry_run)
    if causes:
        raise invalid("Service", "", metadata["name"], causes)


def _key(service: Object) -> tuple[str, str]:
    return service["metadata"].get("namespace", ""), service["metadata"]["name"]


def _has_address(spec: Object) -> bool:
    return spec.get("type") != "ExternalName"


def _has_node_ports(spec: Object) -> bool:
    return spec.get("type") in {"NodePort", "LoadBalancer"}


def _addresses(service: Object) -> set[str]:
    spec = service.get("spec") or {}
    return {spec.get("clusterIP") or "", *(spec.get("clusterIPs") or ())} - {"", _NO_ADDRESS}


def _wrong_address(spec: Object, others: list[Object], *, dry_run: bool) -> list[FieldCause]:
    named = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if not named or named == _NO_ADDRESS:
        return []
    try:
        inside = ip_address(named) in _ADDRESSES
    except ValueError:
        return []  # what is no address at all is refused by validation
    if not inside and dry_run:
        reason = f"the provided IP ({named}) is not in the valid range. The range of valid IPs is {_ADDRESSES}"
    elif not inside:
        reason = "the provided network does not match the current range"
    elif not dry_run and any(named in _addresses(other) for other in others):
        reason = "provided IP is already allocated"
    else:
        return []
    return [bad_value("spec.clusterIPs", [named], f"failed to allocate IP {named}: {reason}")]


def _give_address(spec: Object, others: list[Object], start: int) -> None:
    if not spec.get("clusterIP"):
        listed = spec.get("clusterIPs")
        spec["clusterIP"] = listed[0] if listed else _free_address(others, start)
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _free_address(others: list[Object], start: int) -> str:
    taken = {address for other in others for address in _addresses(other)}
    count = _ADDRESSES.num_addresses - 2  # without those of the network and of broadcast
    places = ((start + step) % count + 1 for step in range(count))
    return next(text for place in places if (text := str(_ADDRESSES[place])) not in taken)


def _node_ports(service: Object) -> Iterator[int]:
    spec = service.get("spec") or {}
    yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


def _give_ports(spec: Object, others: list[Object], start: int, *, dry_run: bool) -> list[FieldCause]:
    taken = {number for other in others for number in _node_ports(other)}
    reserved = taken | {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    places = (_NODE_PORTS[(start + step) % len(_NODE_PORTS)] for step in range(len(_NODE_PORTS)))
    free = (number for number in places if number not in reserved)
    gives = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True)
    # A port that is served by several protocols has one number for all of them.
    by_port: dict[int, int] = {}
    causes: list[FieldCause] = []
    for place, port in enumerate(spec.get("ports") or ()):
        number, known = port.get("nodePort") or 0, by_port.get(port.get("port", 0), 0)
        if not number and gives:
            number = port["nodePort"] = known or next(free)
        elif number and number != known and number in taken:
            causes.append(bad_value(f"spec.ports[{place}].nodePort", number, _TAKEN_PORT))
        elif number not in _NODE_PORTS and number and not dry_run:
            causes.append(bad_value(f"spec.ports[{place}].nodePort", number, _NO_SUCH_PORT))
        if number:
            by_port.setdefault(port.get("port", 0), number)
            taken.add(number)
    if spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local":
        spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or next(free)
    return causes
