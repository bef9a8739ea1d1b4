"""The service as a copy of its process answers about it, and how the two compare what they know of a pod.

A copy answers for some seconds (`live_copy`). What an answer says of the cluster may be so old; but who asks about a
pod means this pod as it is, so the service says with the question what it knows of it (`facts`), and a copy in which
that is not so lets a younger one answer. These are facts that change the answer, not every number in it: a pod that
fits nowhere may be tried a hundred times a second, each time with other counts of nodes in its condition, and then each
question would cost a copy.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import PODS
from kscheduler.api.well_known import REGION, ZONE
from kscheduler.service.parts import Parts

# Facts are about so many pods at most; a question about more is one about the cluster.
_MAX_PODS: Final = 32


class ForkedQuery(msgspec.Struct, array_like=True, frozen=True):
    """A function that a copy calls with `Parts`, the time as of which it answers, and the arguments."""

    module: str
    function: str
    arguments: dict[str, Any]

    def encoded(self) -> bytes:
        """As it is sent to a copy."""
        return msgspec.msgpack.encode(self)


class _Facts(msgspec.Struct, array_like=True, frozen=True):
    pods: tuple[str, ...]
    node: str
    found: tuple[Any, ...]


_QUERY = msgspec.msgpack.Decoder(ForkedQuery)
_FACTS = msgspec.msgpack.Decoder(_Facts)


class ForkedService:
    """Implements `answering_fork.ForkedState`."""

    def __init__(self, parts: Parts, leads: Callable[[], bool]) -> None:
        self._parts, self._leads = parts, leads
        self._as_of = 0.0

    def mark(self) -> object:
        """The configuration in force, and who leads."""
        return self._parts.assembly.adoptions, self._leads()

    def slow_mark(self) -> object:
        """How often something else than a pod has changed, which a person does who tries what helps."""
        return self._parts.assembly.queue.changes_beside_pods

    def begin(self) -> None:
        """In a copy: plugins that fail are not reported, and what each search would make again is made once for all."""
        self._as_of, assembly = self._parts.clock.time(), self._parts.assembly
        assembly.mute_reports()
        assembly.cache.nodes.gather_names()
        for label in (ZONE, REGION):  # by these a search for another node like those that are there tells them apart
            assembly.cache.nodes.label_values(label, np.empty(0, dtype=np.intp))

    def facts(self, pods: Iterable[str], node: str = "") -> bytes:
        """What the service knows of these pods (`namespace/name`), and whether it knows the node."""
        keys = tuple(islice(pods, _MAX_PODS))
        return msgspec.msgpack.encode(_Facts(keys, node, self._found(keys, node)))

    def knows(self, facts: bytes) -> bool:
        """In a copy: whether it would say the same."""
        said = _FACTS.decode(facts)
        return msgspec.msgpack.encode(said) == self.facts(said.pods, said.node)

    def _found(self, keys: tuple[str, ...], node: str) -> tuple[Any, ...]:
        assembly = self._parts.assembly
        return (not node or assembly.cache.has_node(node), *map(self._of_pod, keys))

    def _of_pod(self, key: str) -> tuple[Any, ...]:
        """What its owner has written, where it is, and how its last attempt has ended; not how often it was tried."""
        pod: Pod | None = self._parts.informers.informer(PODS).store.get(key)
        if pod is None:
            return ()
        uid, assembly = pod.metadata.uid, self._parts.assembly
        seen = _digest(pod, self._parts.claim_templates.get(key))
        found = assembly.queue.find(key)
        assumed_on = assembly.cache.node_of(uid) if assembly.cache.is_assumed(uid) else ""
        if found is None:
            return uid, seen, assumed_on, assembly.queue.is_in_flight(uid)
        _, queued = found
        rejected_by = sorted(queued.unschedulable_plugins | queued.pending_plugins)
        why_out = queued.gating_plugin, assembly.queue.why_gated(queued) if queued.gating_plugin else ""
        return uid, seen, assumed_on, queued.attempts > 0, rejected_by, why_out, queued.last_error

    def answer(self, query: bytes) -> bytes:
        """In a child of a copy."""
        queried = _QUERY.decode(query)
        function = getattr(importlib.import_module(queried.module), queried.function)
        text: bytes = function(self._parts, self._as_of, **queried.arguments)
        return text


def _digest(pod: Pod, templates: Mapping[str, ResourceClaimTemplate | None] | None) -> bytes:
    """Of what the answer depends on: without the text of its condition and what kubelets and controllers count.

    `templates`: those of its claims that have been read.
    """
    metadata, status = pod.metadata, pod.status
    conditions = [(each.type, each.status, each.reason) for each in status.conditions if each.type == "PodScheduled"]
    written = metadata.labels, metadata.annotations, metadata.owner_references, metadata.deletion_timestamp, pod.spec
    seen = status.phase, status.nominated_node_name, conditions
    return blake2b(msgspec.msgpack.encode((written, seen, templates), enc_hook=str), digest_size=16).digest()
