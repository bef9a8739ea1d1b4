"""Extenders that answer what a test wants, without a network."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kscheduler.api.core import Pod
from kscheduler.client.extenders.caller import ExtenderError
from kscheduler.config.types import Extender
from kscheduler.scheduling.extenders.http_extender import HTTPExtender


class FakeCalls:
    """Answers by verb; an exception as the answer is raised. Keeps what it was asked."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.asked: list[tuple[str, Any]] = []

    async def call(self, verb: str, body: bytes) -> bytes:
        self.asked.append((verb, msgspec.json.decode(body)))
        answer = self._answers[verb]
        if isinstance(answer, ExtenderError):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)


class NamedDocuments:
    """Documents that are just names."""

    def pod(self, pod: Pod) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(pod.metadata.name))

    def node(self, name: str) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(f"node {name}"))


def fake_extender(url: str, answers: Mapping[str, Any], **settings: Any) -> tuple[HTTPExtender, FakeCalls]:
    """An extender with a verb `filter`, `prioritize`, `preempt` or `bind` for each of its answers."""
    calls = FakeCalls(answers)
    verbs = {f"{verb}_verb": verb for verb in answers}
    given = Extender(url_prefix=url, **{"node_cache_capable": True, "weight": 1, **verbs, **settings})
    return HTTPExtender(given, calls), calls
