"""One extender: its settings, and questions to it whose answers have been checked.

Every failure (no answer, an answer that is none, a claim that cannot be) is one exception, `ExtenderFailure`, with one
line for the pod's condition. What a failure does to the decision is said in `asking`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from kscheduler.api.core import Pod
from kscheduler.client.extenders.caller import ExtenderError
from kscheduler.client.extenders.messages import (
    AnswerError,
    bind_request,
    nodes_request,
    preemption_request,
    read_bind_error,
    read_filter_answer,
    read_scores,
    read_victims,
)
from kscheduler.config.extenders import extender_name, is_asked_about
from kscheduler.config.types import Extender
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.extenders.meaning import (
    ExtenderClaimError,
    LeftNodes,
    PodsOn,
    Victims,
    left_nodes,
    left_victims,
    points_of,
)

T = TypeVar("T")


class ExtenderFailure(Exception):  # noqa: N818  as `PluginFailure`
    """An extender gave no answer that can be used."""


class ExtenderCalls(Protocol):
    """The wire: `client.extenders.caller.ExtenderCaller`."""

    async def call(self, verb: str, body: bytes) -> bytes:
        """The answer's body. Raises `ExtenderError`."""
        ...


class Documents(Protocol):
    """Objects as JSON, for extenders."""

    def pod(self, pod: Pod) -> msgspec.Raw:
        """The pod."""
        ...

    def node(self, name: str) -> msgspec.Raw:
        """The node with this name; `null` if it is gone."""
        ...


class HTTPExtender:
    """An extender that can be asked."""

    def __init__(self, settings: Extender, calls: ExtenderCalls) -> None:
        self.settings = settings
        self.name = extender_name(settings)
        """The address without secrets. kube-scheduler names an extender by its whole address."""
        self._calls = calls

    @property
    def decides(self) -> bool:
        """Whether it has a say in a decision; otherwise it only binds."""
        settings = self.settings
        return bool(settings.filter_verb or settings.prioritize_verb or settings.preempt_verb)

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod concerns this extender."""
        return is_asked_about(self.settings, pod)

    async def left(self, pod: msgspec.Raw, names: Sequence[str], documents: Documents) -> LeftNodes:
        """Which of the nodes it leaves. Without `filterVerb` all. Raises `ExtenderFailure`."""
        if not self.settings.filter_verb:
            return LeftNodes(tuple(names), {})
        body = await self._call(self.settings.filter_verb, self._about_nodes(pod, names, documents))
        knows_nodes = self.settings.node_cache_capable
        return _checked(lambda: left_nodes(self.name, names, read_filter_answer(body), knows_nodes=knows_nodes))

    async def points(self, pod: msgspec.Raw, names: Sequence[str], documents: Documents) -> dict[str, int]:
        """Points by node. Without `prioritizeVerb` none. Raises `ExtenderFailure`."""
        if not self.settings.prioritize_verb:
            return {}
        body = await self._call(self.settings.prioritize_verb, self._about_nodes(pod, names, documents))
        return _checked(lambda: points_of(read_scores(body), self.settings.weight, names))

    async def victims(
        self,
        preemptor: PodInfo,
        document: msgspec.Raw,
        proposed: Victims,
        pods_on: PodsOn,
        documents: Documents,
    ) -> Victims:
        """Nodes and victims that it leaves. Without `preemptVerb` all. Raises `ExtenderFailure`."""
        if not self.settings.preempt_verb:
            return proposed
        whole = None
        if not self.settings.node_cache_capable:
            pods = {uid: pod for name in proposed for uid, pod in pods_on(name).items()}

            def whole(uid: str) -> msgspec.Raw:
                return documents.pod(pods[uid].pod)

        body = await self._call(self.settings.preempt_verb, preemption_request(document, proposed, whole))
        ignorable = self.settings.ignorable
        return _checked(
            lambda: left_victims(self.name, proposed, read_victims(body), pods_on, preemptor, is_ignorable=ignorable)
        )

    async def bind(self, pod: Pod, node: str) -> None:
        """Have it bind the pod. Raises `ExtenderFailure`; then the pod may be bound all the same."""
        meta = pod.metadata
        body = await self._call(self.settings.bind_verb, bind_request(meta.namespace, meta.name, meta.uid, node))
        refusal = _checked(lambda: read_bind_error(body))
        if refusal:
            raise ExtenderFailure(refusal)

    def _about_nodes(self, pod: msgspec.Raw, names: Sequence[str], documents: Documents) -> bytes:
        nodes = None if self.settings.node_cache_capable else [documents.node(name) for name in names]
        return nodes_request(pod, names, nodes)

    async def _call(self, verb: str, body: bytes) -> bytes:
        try:
            return await self._calls.call(verb, body)
        except ExtenderError as error:
            raise ExtenderFailure(str(error)) from None


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except (AnswerError, ExtenderClaimError) as error:
        raise ExtenderFailure(str(error)) from None
