"""A plugin's own data, fetched once as the service does: from its real source, if it has one besides the API server.

There is no API server here, so `Handle.client` answers each request as one that cannot be reached. That a source is
away proves nothing, and is told; what the plugin's code raises while its source answers is a mistake, with its line.
So is what it raises afterwards, when it is asked about nodes of which it has just got data.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from kscheduler.api.core import Node, Pod
from kscheduler.client.errors import NotSentError
from kscheduler.framework.plugin_results import shown
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.runtime.guard import FailureOutcome, PluginCall, PluginFailure
from kscheduler.scheduling.runtime.lifecycle_calls import is_of_source
from kscheduler.scheduling.runtime.points import REFRESH
from kscheduler.scheduling.supervision.supervised import SupervisedPlugin
from kscheduler.scheduling.supervision.supervisor import DEFAULT_BUDGET_SECONDS, cause_of
from kscheduler.testing.answers import APIServerAnswers
from kscheduler.testing.objects import make_node
from kscheduler.testing.trial.tried_plugin import LONGEST_CALL_SECONDS, TriedPlugin, Unheard

REFRESH_SECONDS: Final = 10.0
# Of those that the plugin has got data about.
MAX_NODES: Final = 12
# As the service calls it, which asks for no answer.
_REFRESH: Final = PluginCall[Any](REFRESH.label, lambda answer, _: answer, FailureOutcome.DATA_STAY)
_THEN: Final = "in the service the data stay as they were, `plugin_not_refreshed` is logged, and an alert fires"


class NoAPIServer(APIServerAnswers):
    """Stands for `Handle.client` where there is no API server."""

    def _result(self, method: str, path: str) -> bytes:
        _not_sent(method, path)

    def _note(self, method: str, path: str, body: bytes) -> bytes:
        del body
        _not_sent(method, path)


def _not_sent(method: str, path: str) -> NoReturn:
    raise NotSentError(f"{method} {path}: there is no API server here")


@dataclass(slots=True)
class Refreshed:
    """What is to be said of a refresh; empty texts: nothing."""

    wrong: str = ""
    advice: str = ""


@dataclass(slots=True)
class _Slowest:
    """The step that held the event loop for longest. Implements `PluginListener`."""

    seconds: float = 0.0

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """It is raised as well."""

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """A step has ended."""
        del plugin, point, pod, nodes
        self.seconds = max(self.seconds, seconds)


@dataclass(slots=True)
class _Named:
    """The nodes of which a plugin has got data: `Handle.nodes_changed`."""

    names: list[str] = field(default_factory=list)

    def __call__(self, names: Iterable[Any], *_: Any, **__: Any) -> None:
        self.names += [name for name in names if isinstance(name, str) and name]


def try_refresh(
    registry: Registry, name: str, args: Mapping[str, Any] | None, nodes: Sequence[Node], pods: Sequence[Pod]
) -> Refreshed:
    """Refresh once, in bounded time, then ask about the pods. Raises `PluginFailure` if the plugin cannot be built."""
    changed = _Named()
    tried = TriedPlugin(registry, name, args, nodes, [], NoAPIServer(), changed)
    if not tried.traits.is_refreshed:
        return Refreshed()
    slowest = _Slowest()
    try:
        answers = asyncio.run(_refresh(tried, slowest))
    except PluginFailure as failure:
        return _failed(failure)
    if answers and answers[0] is not None:
        return Refreshed(wrong=f"`refresh` returns {shown(answers[0])}, which is never read: keep data in the plugin")
    if not answers:
        return Refreshed(
            advice=f"`refresh` has not ended after {REFRESH_SECONDS:.0f} s: give what it waits for a timeout"
        )
    for known in list(dict.fromkeys(changed.names))[:MAX_NODES]:
        tried.cache.add_node(make_node(known))
    for pod in pods:
        try:
            tried.answers(pod)
        except PluginFailure as failure:
            return Refreshed(wrong=f"with the data that `refresh` has just fetched, {failure}")
    if slowest.seconds > PLUGIN_TIME.at_most(DEFAULT_BUDGET_SECONDS):
        return Refreshed(
            advice=f"`refresh` computes or waits for {slowest.seconds:.1f} s without an `await`: nothing else runs "
            f"then, and the service ends it at its time budget of {DEFAULT_BUDGET_SECONDS * 1000:.0f}ms"
        )
    return Refreshed()


async def _refresh(tried: TriedPlugin, listener: _Slowest) -> list[Any]:
    """What it has returned; empty if it has not ended. Raises `PluginFailure`."""
    stand_in: Any = SupervisedPlugin(tried.plugin, LONGEST_CALL_SECONDS, Unheard())
    work = asyncio.create_task(_REFRESH.run(stand_in.name, listener, None, stand_in.refresh))
    ended, _ = await asyncio.wait({work}, timeout=PLUGIN_TIME.at_most(REFRESH_SECONDS))
    return [task.result() for task in ended]


def _failed(failure: PluginFailure) -> Refreshed:
    cause = failure.__cause__ or failure
    if is_of_source(cause):
        why = "where the source is away that is right; no API server is asked here, any other source is"
        return Refreshed(advice=f"`refresh` raises {cause_of(cause)}: {why}; the plugin was tried without data")
    return Refreshed(wrong=f"`refresh` raises {cause_of(cause)}: {_THEN}. What its source may lack is a `RefreshError`")
