"""Looks for one thing that would let a parked pod through, so that a never-stuck run does not have to wait for luck.

Few random events help anybody, and a hint is put to the test by those alone. So some events of a calm run are chosen:
what the vocabulary offers is tried on a copy of the truth, in random order and one kind of change like another, until
a cluster made afresh from that copy has a node for the pod. A new node helps nearly everybody, so it comes last.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Final

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS
from tests.scheduling.never_stuck import words
from tests.scheduling.never_stuck.drift_cases import Afresh, wants_a_node

if TYPE_CHECKING:
    from tests.scheduling.never_stuck.machine import NeverStuck

MAX_TRIED: Final = 12

# Told in words, and done.
Event = tuple[str, Callable[[], None]]


def helpful_event(machine: "NeverStuck", key: str, random: Random) -> Event | None:
    """One that lets the pod of this key through; `None` if none of those that were tried does."""
    offered = [events for kind in _KINDS if (events := [*kind(machine, key)])]
    tried = [random.choice(random.choice(offered)) for _ in range(MAX_TRIED)] if offered else []
    new = [*_new_nodes(machine)]
    last = [random.choice(new)] if new else []
    return next((event for event in (*tried, *last) if _helps(machine, key, event)), None)


def _helps(machine: "NeverStuck", key: str, event: Event) -> bool:
    """Whether the pod fits after the event, in a copy of the truth."""
    service, true = machine.service, machine.service.server
    traits = dict(machine.node_traits)
    service.server = true.fork()
    try:
        event[1]()
        tree = service.server.objects[PODS].get(key)
        if tree is None or tree["spec"].get("schedulingGates") or not wants_a_node(pod := convert(tree, Pod)):
            return False
        return Afresh(service.server.cluster()).judge(pod).status.is_success
    finally:
        service.server = true
        machine.node_traits = traits


# --- what may happen --------------------------------------------------------------------------------------------------


def _nodes(machine: "NeverStuck", _key: str) -> Iterator[Event]:
    for name in machine.server.objects[NODES]:
        yield f"node_goes({name})", _call(machine.node_goes, name=name)


def _new_nodes(machine: "NeverStuck") -> Iterator[Event]:
    for name in words.NODE_NAMES:
        for trait in ("", *machine.theme.node_traits) if name not in machine.server.objects[NODES] else ():
            traits = [trait] if trait else []
            yield f"node_comes({name}, {traits})", _call(machine.node_comes, name=name, traits=traits)


def _traits(machine: "NeverStuck", _key: str) -> Iterator[Event]:
    for name in machine.server.objects[NODES]:
        for trait in machine.theme.node_traits:
            yield f"node_gets_or_loses({name}, {trait})", _call(machine.node_gets_or_loses, name=name, trait=trait)


def _pods(machine: "NeverStuck", key: str) -> Iterator[Event]:
    """Others go, change or come."""
    theme = machine.theme
    for other in machine.server.objects[PODS]:
        if other != key:
            yield f"pod_goes({other})", _call(machine.pod_goes, key=other)
            for change in theme.changes:
                yield f"pod_changes({other}, {change})", _call(machine.pod_changes, key=other, change=change)
    for name in machine.server.objects[NODES]:
        for namespace in theme.namespaces:
            for app in sorted({*theme.apps}):
                described = "o3", namespace, app, [theme.pod_traits[0]], name
                yield f"running_pod_comes({described})", _call(machine.running_pod_comes, described=described)


def _own_changes(machine: "NeverStuck", key: str) -> Iterator[Event]:
    for change in machine.theme.changes:
        yield f"pod_changes({key}, {change})", _call(machine.pod_changes, key=key, change=change)


def _own_claims(machine: "NeverStuck", key: str) -> Iterator[Event]:
    for source in machine.server.objects[PODS][key]["spec"].get("volumes", ()):
        if "ephemeral" in source:
            yield f"ephemeral_claim_comes({key})", _call(machine.ephemeral_claim_comes, key=key)
        for what in words.STORAGE_STATES if "persistentVolumeClaim" in source else ():
            if what[1] == source["name"]:
                yield f"storage_is({what})", _call(machine.storage_is, what=what)


def _storage(machine: "NeverStuck", key: str) -> Iterator[Event]:
    if not machine.server.objects[PODS][key]["spec"].get("volumes"):
        return
    for what in words.STORAGE_STATES:
        if what[0] != "persistentvolumeclaims":
            yield f"storage_is({what})", _call(machine.storage_is, what=what)
    for plural, names in words.STORAGE.items():
        for name in names:
            yield f"storage_goes({plural}, {name})", _call(machine.storage_goes, what=(plural, name))


def _namespaces(machine: "NeverStuck", _key: str) -> Iterator[Event]:
    for name in machine.theme.namespaces if len(machine.theme.namespaces) > 1 else ():
        yield f"namespace_goes({name})", _call(machine.namespace_goes, name=name)
        for team in ("x", ""):
            yield f"namespace_is({name}, {team})", _call(machine.namespace_is, name=name, team=team)


_KINDS: Final = (_nodes, _traits, _pods, _own_changes, _own_claims, _storage, _namespaces)


def _call(rule: Callable[..., None], **arguments: object) -> Callable[[], None]:
    return lambda: rule(**arguments)
