"""Requests that are sent alike to the embedded API server and to a real one, and what is compared of their answers.

What the real servers of 1.36 and 1.37 answer is recorded beside the rows; the embedded one must answer the same
(`test_likeness.py`), and that the real ones still say so is checked end to end.
"""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kscheduler.api.releases import VERSION

Object = dict[str, Any]
JSON = "application/json"
APPLY = "application/apply-patch+yaml"
NAMESPACE = "likeness"


@dataclass(frozen=True)
class Request:
    """One request. `body` is sent as JSON, or as it is if it is bytes."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    accept: str = JSON

    @property
    def payload(self) -> bytes | None:
        return self.body if self.body is None or isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Explanation:
    code: int
    body: Any
    """Decoded if it is JSON, else its text."""
    warnings: tuple[str, ...] = ()


Send = Callable[[Request], Awaitable[Explanation]]


@dataclass(frozen=True)
class Row:
    """A comparison: what is sent before, the request whose answer counts, and how much of the answer does."""

    name: str
    request: Request
    before: tuple[Request, ...] = ()
    after: tuple[Request, ...] = ()
    shows_object: bool = False
    """Whether the object in the answer is compared, not only code, reason, message and warnings."""

    shows_text: bool = True
    """Whether message and reason of a refusal are compared."""


async def outcome(send: Send, row: Row) -> Object:
    for request in row.before:
        earlier = await send(request)
        assert earlier.code < 300, f"{row.name}: {request.method} {request.path}: {earlier}"
    try:
        return shown(await send(row.request), row)
    finally:
        for request in row.after:
            await send(request)


def shown(answer: Explanation, row: Row) -> Object:
    """The part of an answer that is compared."""
    found: Object = {"code": answer.code}
    if answer.warnings:
        found["warnings"] = sorted(answer.warnings)
    if answer.code >= 400 and isinstance(answer.body, dict):
        if row.shows_text:
            found["message"] = masked_text(answer.body.get("message", ""))
            if answer.body.get("reason"):
                found["reason"] = answer.body["reason"]
    elif row.shows_object and isinstance(answer.body, dict):
        found["object"] = masked_object(answer.body)
    return found


_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BODY = re.compile(r"\(([0-9a-f]{2}){2,}( \.\.\.)?\)$")
_VOLATILE = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "selfLink")


def masked_text(text: str) -> str:
    text = text.partition("\n@@")[0].partition("\n  core.PodSpec")[0]  # Go's own print of a difference
    return _BODY.sub("(<bytes>)", _UID.sub("<uid>", text)).replace("Key: /registry/", "Key: /")


def masked_object(value: Object) -> Object:
    """The object without what differs from run to run; addresses and ports that were not asked for are given freely."""
    metadata = {name: part for name, part in value.get("metadata", {}).items() if name not in _VOLATILE}
    # Claims and volumes get their protection from a controller here, and not before they are stored.
    metadata["finalizers"] = [text for text in metadata.get("finalizers", ()) if not text.endswith("-protection")]
    text = json.dumps({**value, "metadata": metadata}, sort_keys=True)
    text = re.sub(r'"lastPhaseTransitionTime": "[^"]*", ', "", text)
    text = re.sub(r'"10\.96\.\d+\.\d+"', '"<address>"', _UID.sub("<uid>", text))
    text = re.sub(r'"(lastTransitionTime|timeAdded)": "[^"]*"', r'"\1": "<time>"', text)
    masked: Object = json.loads(re.sub(r'"(healthCheckNodePort|nodePort)": (?!30123\b)\d+', r'"\1": 0', text))
    return masked


class Recording:
    """The answers of the real server to the rows of one file: those of 1.36, and what a later version answers else."""

    def __init__(self, name: str, version: str = VERSION) -> None:
        """`version`: of the API server, `1.37`."""
        self._first = Path(__file__).with_name(f"{name}.json")
        self._own = None if version == VERSION else Path(__file__).with_name(f"{name}-{version}.json")

    def read(self) -> dict[str, Object]:
        found: dict[str, Object] = json.loads(self._first.read_text())
        if self._own is not None and self._own.exists():
            found |= json.loads(self._own.read_text())
        return found

    def write(self, answers: dict[str, Object]) -> None:
        if self._own is not None:
            first = json.loads(self._first.read_text())
            answers = {name: one for name, one in answers.items() if one != first.get(name)}
        if self._own is not None and not answers:
            self._own.unlink(missing_ok=True)
            return
        lines = (f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in answers.items())
        (self._own or self._first).write_text("{\n" + ",\n".join(lines) + "\n}\n")
