"""Claims in use before pods come: devices on nodes at random, chosen by the allocator of the benchmark in process."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from benchmarks.real.devices import GROUP_PATH
from benchmarks.upstream.requests import Request
from kscheduler.api.codec import Decoder
from kscheduler.api.kinds import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.releases import VERSION, followed
from kscheduler.bench.allocation import allocate_claims
from kscheduler.bench.cluster import ServiceInProcess, StandIn
from kscheduler.config.feature_gates import parse_feature_gates
from tests.controlplane.rest import Api

# In the order in which they are shown to the allocator.
_KINDS: Final = (NODES, DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS)


def allocations(api: Api, gates: Mapping[str, bool], namespace: str) -> Iterator[Request]:
    """Requests that give each claim of the namespace (all, if it is empty) its devices.

    Raises `TemplateError` if one finds none on any node, `ConfigError` for gates that kscheduler does not have.
    """
    claims = RESOURCE_CLAIMS.path.removeprefix(GROUP_PATH)
    path = f"{GROUP_PATH}/namespaces/{namespace}{claims}" if namespace else RESOURCE_CLAIMS.path
    if not api.items(path):
        return
    version = followed(api.get("/version")["gitVersion"]) or VERSION
    cluster = StandIn()
    named = ",".join(f"{name}={str(is_on).lower()}" for name, is_on in gates.items())
    service = ServiceInProcess(cluster, gates=parse_feature_gates(named, version=version))
    for kind in _KINDS:
        for found in _listed(api, kind):
            cluster.create(kind, found)
    allocate_claims(cluster, service, namespace)
    for claim in list(cluster.stores[RESOURCE_CLAIMS].list()):
        if namespace in ("", claim.metadata.namespace):
            body = msgspec.json.encode({"status": {"allocation": claim.status.allocation}})
            own = f"{GROUP_PATH}/namespaces/{claim.metadata.namespace}{claims}/{claim.metadata.name}/status"
            yield Request(own, body, "PATCH")


def _listed(api: Api, kind: Kind) -> Iterator[KubeObject]:
    decoder = Decoder(kind.type)
    for tree in api.items(kind.path):
        yield decoder.decode(msgspec.json.encode(tree))
