"""`/metrics/resources`: what each pod requests and is limited to, as kube-scheduler tells it.

Two series with up to a million lines: they are written pod by pod, in slices of two milliseconds, and no faster than
the client reads, so neither decisions nor memory notice a scrape. Empty while this scheduler does not lead, as
upstream: otherwise each pod would be counted once per replica.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aiohttp import hdrs, web
from prometheus_client.utils import floatToGoString

from kscheduler.aio.tasks import Slicer
from kscheduler.api.core import Pod
from kscheduler.framework.pods.requests import spec_limits, spec_requests
from kscheduler.server.handlers import Handler

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SLICE_SECONDS: Final = 0.002
_CHUNK_BYTES: Final = 64 * 1024
_UNITS: Final[Mapping[str, str]] = {
    "cpu": "cores",
    "memory": "bytes",
    "storage": "bytes",
    "ephemeral-storage": "bytes",
}
_PREFIXES: Final = (("hugepages-", "bytes"), ("attachable-volumes-", "integer"))
_SERIES: Final = (
    ("kube_pod_resource_limit", "What the pods of the cluster are limited to, by pod and resource.", spec_limits),
    ("kube_pod_resource_request", "What the pods of the cluster request, by pod and resource.", spec_requests),
)
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def pod_resources(pods: Callable[[], Iterable[Pod]], leads: Callable[[], bool]) -> Handler:
    """`pods` is called once per series, and may return what changes while it is read: a snapshot of keys."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})
        await response.prepare(request)
        if leads():
            await _write(response, pods)
        return response

    return handle


async def _write(response: web.StreamResponse, pods: Callable[[], Iterable[Pod]]) -> None:
    slicer, chunk = Slicer(_SLICE_SECONDS), bytearray()
    for name, text, amounts_of in _SERIES:
        chunk += f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode()
        for pod in pods():
            if not _has_ended(pod):
                for line in lines_of(name, pod, amounts_of(pod)):
                    chunk += line.encode()
            if len(chunk) >= _CHUNK_BYTES:
                await response.write(bytes(chunk))
                chunk.clear()
                slicer.begin()
            elif slicer.used_up():
                await slicer.turn()
    await response.write(bytes(chunk))


def _has_ended(pod: Pod) -> bool:
    """Whether it uses nothing any longer. A pod without a node cannot have ended."""
    return bool(pod.spec.node_name) and pod.status.phase in _ENDED


def lines_of(name: str, pod: Pod, amounts: Mapping[str, int]) -> Iterable[str]:
    """The lines of a pod; `amounts` in billionths."""
    spec, metadata = pod.spec, pod.metadata
    priority = "" if spec.priority is None else str(spec.priority)
    labels = {
        "namespace": metadata.namespace,
        "pod": metadata.name,
        "node": spec.node_name,
        "scheduler": spec.scheduler_name,
        "priority": priority,
    }
    head = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels.items())
    for resource, amount in amounts.items():
        if amount:
            value = floatToGoString(amount / 10**9)  # type: ignore[no-untyped-call]  # it has no types
            unit = unit_of(resource)
            yield f'{name}{{{head},resource="{resource.translate(_ESCAPES)}",unit="{unit}"}} {value}\n'


def unit_of(resource: str) -> str:
    """The `unit` label; empty for what is counted in pieces."""
    return _UNITS.get(resource) or next((unit for prefix, unit in _PREFIXES if resource.startswith(prefix)), "")
