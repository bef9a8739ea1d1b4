"""A Prometheus query with a number per node."""

import math
from typing import Final

import msgspec

from kscheduler.config.plugin_args import HTTPSource
from kscheduler.framework.plugin import RefreshError
from kscheduler.plugins.policies.http_source import fetched, in_thread_if_large

QUERY_PATH: Final = "/api/v1/query"


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[_Series] = []


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    error: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


class Samples(dict[str, float]):
    """Numbers by node name."""

    taken_at: float = math.inf
    """When the oldest of them was taken: seconds since 1970."""


async def queried(source: HTTPSource, query: str, node_label: str) -> Samples:
    """The query's series, each by the value of `node_label`. Raises `RefreshError`.

    A value such as `node-1:9100` stands for `node-1`. Series without a number (NaN, Inf) are left out.
    """
    body = await fetched(source, QUERY_PATH, {"query": query})
    return await in_thread_if_large(lambda answer: samples(answer, node_label), body)


def samples(body: bytes, node_label: str) -> Samples:
    """The numbers of an answer. Raises `RefreshError`."""
    found = Samples()
    series = _series(body)
    for one in series:
        name = _node_name(one.metric.get(node_label, ""))
        if not name or one.value is None:
            continue
        number = _number(one.value[1])
        if number is None:
            continue
        if name in found:
            advice = f"aggregate them, as in `max by ({node_label}) (...)`"
            raise RefreshError(f"two series have {node_label}={name}: {advice}")
        found[name] = number
        found.taken_at = min(found.taken_at, one.value[0])
    if not found:
        why = f"has {len(series)} series, none with a number and a label {node_label}" if series else "has no series"
        raise RefreshError(f"the query's result {why}")
    return found


def _series(body: bytes) -> list[_Series]:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        if answer.status != "success":
            raise RefreshError(f"Prometheus says: {answer.error or answer.status or 'nothing'}"[:300])
        kind = msgspec.json.decode(answer.data, type=_ResultType)
        if kind.result_type != "vector":
            raise RefreshError(f"the query's result is a {kind.result_type or 'nothing'}: ask for an instant vector")
        return msgspec.json.decode(answer.data, type=_Data).result
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as mistake:
        raise RefreshError(f"no answer of Prometheus: {mistake}") from None


class _ResultType(msgspec.Struct, rename="camel"):
    result_type: str = ""


def _node_name(value: str) -> str:
    """A node's name has no colon: what follows one is a port."""
    return value.partition(":")[0]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
