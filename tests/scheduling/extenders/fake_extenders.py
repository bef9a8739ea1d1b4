"""Extenders that answer what a test wants, without a network."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kscheduler.api.core import Pod
from kscheduler.client.extenders.caller import CallGivenUpError, ExtenderError
from kscheduler.config.types import Extender
from kscheduler.scheduling.extenders.call_reports import CallReports
from kscheduler.scheduling.extenders.http_extender import HTTPExtender


class FakeCalls:
    """Answers by verb; an exception as the answer is raised. Keeps what it was asked."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.queried: list[tuple[str, Any]] = []

    async def call(self, verb: str, body: bytes, may_send: Callable[[], bool] | None = None) -> bytes:
        if may_send is not None and not may_send():
            message = "not sent"
            raise CallGivenUpError(message)
        self.queried.append((verb, msgspec.json.decode(body)))
        answer = self._answers[verb]
        if isinstance(answer, ExtenderError):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)


class NamedObjects:
    """ObjectSource that are just names."""

    async def pod(self, pod: Pod) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(pod.metadata.name))

    async def nodes(self, names: Sequence[str]) -> Sequence[msgspec.Raw]:
        return [msgspec.Raw(msgspec.json.encode(f"node {name}")) for name in names]


def fake_extender(
    url: str, answers: Mapping[str, Any], reports: CallReports | None = None, **settings: Any
) -> tuple[HTTPExtender, FakeCalls]:
    """An extender with a verb `filter`, `prioritize`, `preempt` or `bind` for each of its answers."""
    calls = FakeCalls(answers)
    verbs = {f"{verb}_verb": verb for verb in answers}
    given = Extender(url_prefix=url, **{"node_cache_capable": True, "weight": 1, **verbs, **settings})
    return HTTPExtender(given, calls, reports), calls
