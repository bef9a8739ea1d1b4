"""One extender: its settings, and questions to it whose answers have been checked.

Every failure (no answer, an answer that is none, a claim that cannot be) is one exception, `ExtenderFailure`, with one
line for the pod's condition. What a failure does to the decision is said in `asking`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import msgspec

from kscheduler.api.core import Pod
from kscheduler.client.extenders.caller import (
    CallGivenUpError,
    ExtenderError,
    ExtenderNotReachedError,
    ExtenderStatusError,
    ExtenderTimeoutError,
)
from kscheduler.client.extenders.messages import (
    ExtenderResponseError,
    bind_request,
    nodes_request,
    preemption_request,
    read_bind_error,
    read_filter_response,
    read_scores,
    read_victims,
)
from kscheduler.config.extenders import decides, extender_name, is_queried_about
from kscheduler.config.types import Extender
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.extenders.call_reports import CallReports, CallResult
from kscheduler.scheduling.extenders.extender_results import (
    MAX_SCORE,
    ExtenderClaimError,
    PodsOn,
    RemainingNodes,
    Victims,
    left_victims,
    points_of,
    remaining_nodes,
    shortened,
)

# Questions with whole nodes at a time: 5,000 nodes of 10 kB are 40 MB each.
MAX_WITH_NODES: Final = 4

T = TypeVar("T")
_ENCODER = msgspec.json.Encoder()


class ExtenderFailure(Exception):  # noqa: N818  as `PluginFailure`
    """An extender gave no answer that can be used. A call that we gave up ourselves is no such failure."""


class BindFailure(ExtenderFailure):
    """An extender was to bind a pod, and has not said that it has."""

    def __init__(self, message: str, *, may_be_bound: bool = True, is_answer: bool = False) -> None:
        """`may_be_bound`: the call may have reached it. `is_answer`: it has said that it failed, so it has ended."""
        super().__init__(message)
        self.may_be_bound = may_be_bound
        self.is_answer = is_answer


class ExtenderCalls(Protocol):
    """The wire: `client.extenders.caller.ExtenderCaller`."""

    async def call(self, verb: str, body: bytes, may_send: Callable[[], bool] | None = None) -> bytes:
        """The answer's body. Raises `ExtenderError`, also if `may_send` says no in the instant before."""
        ...


@dataclass(frozen=True, slots=True)
class SentPod:
    """A pod as it is sent to all extenders."""

    key: str
    document: msgspec.Raw


# Whole nodes by their names, for extenders that do not know nodes themselves. Raises `ObjectReadError`.
SentNodes = Callable[[Sequence[str]], Awaitable[Sequence[msgspec.Raw]]]


class ObjectSource(Protocol):
    """Objects as JSON, for extenders: `client.extenders.whole_objects.WholeObjects`."""

    async def pod(self, pod: Pod) -> msgspec.Raw:
        """The pod. Raises `ObjectReadError`."""
        ...

    async def nodes(self, names: Sequence[str]) -> Sequence[msgspec.Raw]:
        """The nodes, without those that are gone. Raises `ObjectReadError`."""
        ...


def encoded(pod: Pod) -> msgspec.Raw:
    """A pod with the fields that scheduling reads."""
    return msgspec.Raw(_ENCODER.encode(pod))


class HTTPExtender:
    """An extender that can be asked."""

    def __init__(self, settings: Extender, calls: ExtenderCalls, reports: CallReports | None = None) -> None:
        self.settings = settings
        self.name = extender_name(settings)
        """The address without secrets. kube-scheduler names an extender by its whole address."""
        self._calls = calls
        self._room = nullcontext() if settings.node_cache_capable else asyncio.Semaphore(MAX_WITH_NODES)
        self._reports = reports or CallReports(self.name, _no_clock, is_ignorable=settings.ignorable)

    @property
    def decides(self) -> bool:
        """Whether it has a say in a decision; otherwise it only binds."""
        return decides(self.settings)

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod concerns this extender."""
        return is_queried_about(self.settings, pod)

    async def left(self, pod: SentPod, names: Sequence[str], nodes: SentNodes) -> RemainingNodes:
        """Which of the nodes it leaves. Without `filterVerb` all. Raises `ExtenderFailure`, or what `nodes` raises."""
        if not self.settings.filter_verb:
            return RemainingNodes(tuple(names), {})
        knows_nodes = self.settings.node_cache_capable

        def read(body: bytes) -> RemainingNodes:
            return remaining_nodes(self.name, names, read_filter_response(body), knows_nodes=knows_nodes)

        async with self._room:
            request = await self._about_nodes(pod, names, nodes)
            return await self._ask(_Call("filter", self.settings.filter_verb, pod.key), request, read)

    async def points(self, pod: SentPod, names: Sequence[str], nodes: SentNodes) -> dict[str, int]:
        """Points by node. Without `prioritizeVerb` none. Raises `ExtenderFailure`, or what `nodes` raises."""
        if not self.settings.prioritize_verb:
            return {}
        call = _Call("prioritize", self.settings.prioritize_verb, pod.key)

        def read(body: bytes) -> dict[str, int]:
            scores = read_scores(body)
            if outside := next((score for score in scores if not 0 <= score[1] <= MAX_SCORE), None):
                self._reports.scored_outside(*outside)
            return points_of(scores, self.settings.weight, names)

        async with self._room:
            return await self._ask(call, await self._about_nodes(pod, names, nodes), read)

    async def victims(self, preemptor: PodInfo, pod: SentPod, proposed: Victims, pods_on: PodsOn) -> Victims:
        """Nodes and victims that it leaves. Without `preemptVerb` all. Raises `ExtenderFailure`."""
        if not self.settings.preempt_verb:
            return proposed
        whole = None
        if not self.settings.node_cache_capable:
            pods = {uid: found for name in proposed for uid, found in pods_on(name).items()}

            def whole(uid: str) -> msgspec.Raw:
                return encoded(pods[uid].pod)

        def read(body: bytes) -> Victims:
            ignorable = self.settings.ignorable
            return left_victims(self.name, proposed, read_victims(body), pods_on, preemptor, is_ignorable=ignorable)

        request = preemption_request(pod.document, proposed, whole)
        return await self._ask(_Call("preempt", self.settings.preempt_verb, pod.key), request, read)

    async def bind(self, pod: Pod, node: str, may_send: Callable[[], bool]) -> None:
        """Have it bind the pod. Raises `BindFailure`; then the pod may be bound all the same."""
        meta = pod.metadata
        request = bind_request(meta.namespace, meta.name, meta.uid, node)

        def read(body: bytes) -> None:
            refusal = read_bind_error(body)
            if refusal:
                raise ExtenderClaimError(refusal)

        try:
            await self._ask(_Call("bind", self.settings.bind_verb, pod.key), request, read, may_send)
        except CallGivenUpError as error:
            raise BindFailure(str(error)) from error
        except ExtenderFailure as failure:
            cause = failure.__cause__
            raise BindFailure(
                str(failure),
                may_be_bound=not isinstance(cause, ExtenderNotReachedError),
                is_answer=isinstance(cause, ExtenderClaimError | ExtenderStatusError),
            ) from cause

    async def _about_nodes(self, pod: SentPod, names: Sequence[str], nodes: SentNodes) -> bytes:
        whole = None if self.settings.node_cache_capable else await nodes(names)
        return nodes_request(pod.document, names, whole)

    async def _ask(
        self,
        call: "_Call",
        request: bytes,
        read: Callable[[bytes], T],
        may_send: Callable[[], bool] | None = None,
    ) -> T:
        """The answer, read and checked. Every end is reported; but a call that this process itself has given up raises
        `CallGivenUpError`, and says nothing about the extender.
        """
        reports, verb = self._reports, call.verb
        began = reports.now()
        try:
            found = read(await self._calls.call(call.path, request, may_send))
        except CallGivenUpError:
            raise
        except ExtenderClaimError as refusal:
            reports.ended(verb, CallResult.ERROR, began)
            reports.answered()
            if self.settings.ignorable and verb != "bind":  # of a bind the pod's own lines tell
                reports.passed_over(verb, call.pod, shortened(str(refusal)))
            raise ExtenderFailure(shortened(str(refusal))) from refusal
        except (ExtenderResponseError, ExtenderError) as error:
            result = CallResult.TIMEOUT if isinstance(error, ExtenderTimeoutError) else CallResult.ERROR
            reports.ended(verb, result, began)
            reports.was_unavailable(verb, call.pod, str(error))
            raise ExtenderFailure(str(error)) from error
        reports.ended(verb, CallResult.SUCCESS, began)
        reports.answered()
        return found


@dataclass(frozen=True, slots=True)
class _Call:
    """What is asked, for reports."""

    verb: str
    """The protocol's."""
    path: str
    """The configured one."""
    pod: str


def _no_clock() -> float:
    return 0.0
