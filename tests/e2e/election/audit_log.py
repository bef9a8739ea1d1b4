"""The API server's audit log as the judge of an election: who wrote what, and whose the lease was then.

Each line is a request that the API server has answered: when it came in, when it was answered, from which address.
Writes of the Lease carry their body, so its holder at each moment is known without asking any replica.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    verbs: [create, update, patch, delete]
    resources:
      - group: coordination.k8s.io
        resources: [leases]
  - level: Metadata
    verbs: [create, update, patch, delete]
    resources:
      - group: ""
        resources: [pods, pods/binding, pods/status, persistentvolumes, persistentvolumeclaims]
  - level: None
"""


@dataclass(frozen=True, slots=True)
class Request:
    """A write that the API server has applied."""

    received: float
    """Seconds since the epoch, as are all times here."""
    answered: float
    source: str
    """The address that it came from: one per replica."""
    verb: str
    resource: str
    """`pods/binding`, `leases` ..."""
    name: str
    """`namespace/name`."""
    holder: str | None = None
    """Of a Lease: the holder that was written; empty: released."""

    @property
    def is_binding(self) -> bool:
        return self.resource == "pods/binding"


def parse(line: str) -> Request | None:
    """The request of a line; `None` if it was refused."""
    event: dict[str, Any] = json.loads(line)
    if event.get("responseStatus", {}).get("code", 500) >= 300:
        return None
    found = event.get("objectRef", {})
    subresource = f"/{found['subresource']}" if found.get("subresource") else ""
    holder = None
    if found["resource"] == "leases":
        holder = (event.get("requestObject", {}).get("spec") or {}).get("holderIdentity") or ""
    return Request(
        _seconds(event["requestReceivedTimestamp"]),
        _seconds(event["stageTimestamp"]),
        event["sourceIPs"][0],
        event["verb"],
        found["resource"] + subresource,
        f"{found.get('namespace', '')}/{found.get('name', '')}",
        holder,
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class AuditLog:
    """The growing file; may be read from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offset = 0
        self._requests: list[Request] = []

    def requests(self) -> Sequence[Request]:
        """All applied writes so far, in the order of their answers."""
        with self._lock:
            if self._path.exists():
                with self._path.open("rb") as file:
                    file.seek(self._offset)
                    whole = file.read().rpartition(b"\n")[0]
                self._offset += len(whole) + 1 if whole else 0
                found = (parse(line) for line in whole.decode().splitlines())
                self._requests += [request for request in found if request is not None]
            return tuple(self._requests)

    def first_binding(self, source: str, after: float) -> Request | None:
        """The first Binding that came in from `source` after a moment."""
        bindings = (one for one in self.requests() if one.is_binding and one.source == source and one.received > after)
        return next(bindings, None)


def holders(requests: Iterable[Request], lease: str) -> list[Request]:
    """The writes that gave the lease to somebody else, or to nobody, in the order in which they were applied.

    The API server serialises writes of one object, so the order of the answers is theirs.
    """
    changes: list[Request] = []
    for request in sorted(requests, key=lambda one: one.answered):
        if request.holder is None or request.name != lease:
            continue
        if not changes or changes[-1].holder != request.holder:
            changes.append(request)
    return changes


def leader(requests: Iterable[Request], lease: str) -> str:
    """The source of the present holder; empty if nobody holds the lease."""
    changes = holders(requests, lease)
    return changes[-1].source if changes and changes[-1].holder else ""


def writes_by_others(requests: Sequence[Request], lease: str, sources: Iterable[str]) -> list[str]:
    """A line per write that came in from a replica when the lease was not its own.

    A write belongs to a holder whose lease was answered before the write came in, and that nobody else had got yet: a
    request that was under way in the instant of the change is the holder's.
    """
    changes, replicas = holders(requests, lease), set(sources)
    faults = []
    for write in requests:
        if write.holder is not None or write.source not in replicas:
            continue
        before = [change for change in changes if change.answered < write.received]
        if not before or before[-1].source != write.source or not before[-1].holder:
            owner = f"{before[-1].source} ({before[-1].holder or 'released'})" if before else "nobody"
            faults.append(f"{write.verb} {write.resource} {write.name} by {write.source}; the lease was of {owner}")
    return faults


def bound_twice(requests: Iterable[Request], within: str) -> list[str]:
    """Pods of a namespace with more than one applied Binding."""
    counts = Counter(one.name for one in requests if one.is_binding and one.name.startswith(f"{within}/"))
    return sorted(name for name, count in counts.items() if count > 1)
