"""Why the writes of a namespace fail or hang, as far as the API server has said it, and where to look.

A write that hangs has no answer to learn from. But the API server gives up on a webhook after its `timeoutSeconds` (10
by default, 30 at most), on etcd and on itself, and its answer names who did not answer. What it said last about each
kind of write in each namespace is kept here, for reports of writes that hang (`service.monitors.hanging_writes`).

What a request was refused for as it is (400 to 422) says nothing of the kind. Limits: the last `MOST` namespaces and
kinds, as lines of text. Pure.
"""

import re
from typing import Final

import msgspec

from kscheduler.bounded import RecentlyUsed
from kscheduler.client.errors import APIError, ClientError, NetworkError
from kscheduler.client.resource_path import RequestOwner
from kscheduler.telemetry.logs.clean import short_line

MOST: Final = 64
LONGEST_TEXT: Final = 300
# `k8s.io/apiserver/pkg/admission/plugin/webhook/errors`.
_WEBHOOK: Final = re.compile(r'failed calling webhook "([^"]+)"')
_ETCD: Final = re.compile(r"\betcd(server)?\b")


class WriteFailure(msgspec.Struct, frozen=True):
    """A write that has failed."""

    text: str
    at: float
    """In monotonic seconds."""

    @property
    def webhook(self) -> str:
        """The admission webhook that the API server names; empty: none."""
        found = _WEBHOOK.search(self.text)
        return found[1] if found is not None else ""


class WriteFailures:
    """The last failure by namespace and kind of write."""

    def __init__(self) -> None:
        self._last: RecentlyUsed[RequestOwner, WriteFailure] = RecentlyUsed(MOST)

    def note(self, owner: RequestOwner, failure: ClientError, now: float) -> None:
        """A write of this owner has failed."""
        may_get_better = isinstance(failure, NetworkError) or (
            isinstance(failure, APIError)
            and (failure.is_server_error or failure.is_timeout or failure.is_too_many_requests)
        )
        if may_get_better and not owner.is_read:
            self._last[owner] = WriteFailure(short_line(" ".join(str(failure).split()), LONGEST_TEXT), now)

    def last(self, namespace: str, write: str, since: float) -> WriteFailure | None:
        """The last failure since then; `write` may be empty: any kind."""
        found = [
            failure
            for owner, failure in self._last.items()
            if owner.namespace == namespace and write in ("", owner.write) and failure.at >= since
        ]
        return max(found, key=lambda failure: failure.at, default=None)


def advice_on_hanging(write: str, failure: WriteFailure | None, *, silent_seconds: float = 0.0) -> str:
    """Where to look for who does not answer. `write`: the verb and the resource, as in `create pods/binding`.
    `silent_seconds`: for how long the API server has sent nothing to the scheduler itself; 0: not for unusually long.
    """
    if failure is not None and failure.webhook:
        return (
            f"the admission webhook {failure.webhook} does not answer: mend its service or remove it, or let its "
            "namespaceSelector leave this namespace out; kubectl get "
            "validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml has it"
        )
    if failure is not None and _ETCD.search(failure.text):
        return "etcd is slow or has no quorum: look at its log, its disks and the API server's /readyz?verbose"
    look = (
        f"look for an admission webhook that matches {write.partition(' ')[2] or 'these writes'} in this namespace "
        "(kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml), then at its quotas, at "
        "the API server's log, which names who does not answer, and at etcd"
    )
    if not silent_seconds:
        return look
    return (
        f"{silence(silent_seconds)}: the API server itself may hang or be away. If so, the log line "
        f"api_server_unreachable follows within half a minute; if not, {look}"
    )


def silence(seconds: float) -> str:
    """What has not come for so long. Plugins have a client of their own, whose requests may still be answered."""
    return (
        f"for {seconds:.0f} s none of the scheduler's own requests has been answered and none of its watches has "
        "brought anything"
    )
