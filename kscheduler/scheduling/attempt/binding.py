"""Sending a Binding to the API server, and finding out whether it was applied.

A Binding carries the pod's UID, so a pod that was created again under the same name is never bound by mistake. The
outcome of a request is either certain or unknown:

    201                          bound
    409                          read the pod: on our node - bound (an earlier try was applied); on another - lost
    404, 400, 403, 422, ...      certainly refused, unless the outcome of an earlier try is unknown: then read the pod.
                                 If the server has judged the pod itself (a webhook, a quota, a validation), the
                                 Status says so: trying again soon would not help
    connection refused, DNS      certainly not applied: try again
    429                          certainly not applied: try again after Retry-After, with fewer requests at a time
    timeout, reset, 5xx, and     unknown: read the pod; if it has no node yet, send the same Binding again. The server
    2xx with another body than   applies it at most once, so the second answer settles the first.
    a Status of success

An unknown outcome is pursued until it is known, with growing pauses: if the cache forgot the pod too early, its room
could be given away twice. The exception is a server that answers 5xx again and again while the pod stays without a
node: that counts as refused, because a failing webhook may be the cause, and the node must not be held for it; or a
proxy answers in its place. A bind that was sent is never cancelled.
"""

import random
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kscheduler.aio.clock import Clock
from kscheduler.aio.rate_limiters import Backoff
from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Pod
from kscheduler.client.errors import APIError, ClientError, ForeignResponseError, NotSentError, UnknownOutcomeError
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.status import SUCCESS, Fault, Status, error
from kscheduler.scheduling.attempt_events import BindingInDoubt, BindingNotSent, BindingSettled
from kscheduler.scheduling.foreign_bindings import ForeignBindings
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers

# 5xx answers to one Binding after which a pod that is still without a node gives up this node.
MAX_SERVER_ERRORS: Final = 3

_REFUSALS: Final = frozenset({400, 403, 413, 422})
# The text of an RBAC refusal. It concerns all pods, so they are tried again soon, for when the role is corrected.
_NO_RIGHTS: Final = re.compile(r"\bcannot \w+ resource ")


class PodBinder(Protocol):
    """The part of `client.pod_writes.PodWriter` that binding needs."""

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS
    ) -> None:
        """Send the Binding; the pod gets these annotations with it."""
        ...

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Read the pod, uncached."""
        ...


class BindingWriter:
    """Binds pods, and settles unknown outcomes. Implements `framework.handle.Writer`."""

    def __init__(
        self,
        pods: PodBinder,
        clock: Clock,
        observations: Observations,
        on_throttled: Callable[[str, APIError], None],
        observers: Observers = NO_OBSERVERS,
        taken: ForeignBindings | None = None,
        on_pause: Callable[[str], None] = lambda _uid: None,
    ) -> None:
        """`on_throttled` hears of each 429, with the pod's namespace. `on_pause`: with the pod's UID, before each
        sleep because of an answer.
        """
        self._pods = pods
        self._clock = clock
        self._observations = observations
        self._on_throttled = on_throttled
        self._tell = observers.tell
        self._taken = taken
        self._on_pause = on_pause

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Status:
        """Bind the pod; returns when the outcome is certain, however long that takes."""
        began = self._clock.monotonic()
        status = await self._bind(pod, node_name, annotations)
        result = "success" if status.is_success else "error"
        self._observations.async_api_call("pod_binding", result, self._clock.monotonic() - began)
        return status

    async def _bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str]) -> Status:
        meta = pod.metadata
        backoff: Backoff | None = None
        server_errors = 0
        is_in_doubt = False
        while True:
            retry_after, has_answered = 0.0, True
            try:
                await self._pods.bind(meta.namespace, meta.name, meta.uid, node_name, annotations)
            except NotSentError as failure:
                has_answered = False  # nobody can be reached: no place is needed by others meanwhile
                self._tell(BindingNotSent(pod, node_name, str(failure)))
            except ClientError as failure:
                retry_after = _retry_after_seconds(failure)
                is_in_doubt = is_in_doubt or _leaves_doubt(failure)
                server_errors += _is_answered_badly(failure)
                last = server_errors >= MAX_SERVER_ERRORS
                status = await self._judge(pod, node_name, failure, is_in_doubt=is_in_doubt, last=last)
                if status is not None:
                    return status
            else:
                return SUCCESS
            if has_answered:
                self._on_pause(meta.uid)
            backoff = backoff or self._backoff(meta.uid)
            await self._clock.sleep(max(backoff.next(), retry_after))

    def _backoff(self, seed: str) -> Backoff:
        """With jitter seeded by the pod, so that a run can be repeated."""
        return Backoff(0.1, cap_seconds=10.0, jitter=0.5, rng=random.Random(seed), clock=self._clock)  # noqa: S311

    async def _judge(
        self, pod: Pod, node_name: str, failure: ClientError, *, is_in_doubt: bool, last: bool
    ) -> Status | None:
        """What a failure means; `None`: try again.

        `is_in_doubt`: some try may have been applied. `last`: do not try again if the pod has no node.
        """
        is_conflict = isinstance(failure, APIError) and failure.is_conflict
        if isinstance(failure, APIError) and failure.is_too_many_requests:
            self._on_throttled(pod.metadata.namespace, failure)
            return None
        if not (is_in_doubt or is_conflict):
            return _error_of(failure)
        last = last or not _leaves_doubt(failure)
        self._tell(BindingInDoubt(pod, node_name, str(failure)))
        status = await self._settle(pod, node_name, failure, last=last)
        if status is not None:
            outcome = "bound" if status.is_success else "lost"
            self._tell(BindingSettled(pod, node_name, outcome, str(failure)))
            if status.is_success and not is_in_doubt and self._taken is not None:
                self._taken.bound(pod, node_name)  # it is on our node, and no try of ours can have put it there
        return status

    async def _settle(self, pod: Pod, node_name: str, failure: ClientError, *, last: bool) -> Status | None:
        """Read the pod: is it on our node? `None` while that cannot be known."""
        meta = pod.metadata
        try:
            found = await self._pods.get_pod(meta.namespace, meta.name)
        except APIError as unread:
            return error(f"pod {pod.key} is gone: {failure}", fault=Fault.GONE) if unread.is_not_found else None
        except (ClientError, UndecodableError):
            return None
        if found.metadata.uid != meta.uid:
            return error(f"pod {pod.key} was made again with another UID: {failure}", fault=Fault.GONE)
        if found.spec.node_name == node_name:
            return SUCCESS
        if found.spec.node_name:
            return error(f"pod {pod.key} is on node {found.spec.node_name} already")
        return _error_of(failure) if last else None


def _error_of(failure: ClientError) -> Status:
    """The Error with the server's text as client-go shows it: without method and path."""
    if not isinstance(failure, APIError):
        return error(str(failure))
    if failure.is_not_found:
        return error(failure.message or str(failure), fault=Fault.GONE)
    refused = failure.code in _REFUSALS and not _NO_RIGHTS.search(failure.message)
    return error(failure.message or str(failure), fault=Fault.REFUSED if refused else Fault.PASSING)


def _retry_after_seconds(failure: ClientError) -> float:
    """The server's Retry-After, which `client.errors` has bounded; 0 without one."""
    return (failure.retry_after_seconds or 0.0) if isinstance(failure, APIError) else 0.0


def _is_answered_badly(failure: ClientError) -> bool:
    """5xx, or a 2xx that no API server sends: who answers so again and again has not applied it, if the pod says so."""
    return isinstance(failure, ForeignResponseError) or (isinstance(failure, APIError) and failure.is_server_error)


def _leaves_doubt(failure: ClientError) -> bool:
    """Whether the Binding may have been applied despite the failure."""
    if isinstance(failure, APIError):
        return failure.is_server_error or failure.is_timeout
    return isinstance(failure, UnknownOutcomeError)
