"""Status conditions and numbers that may be percentages."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.durations import timestamp


def find(conditions: list[Object], kind: str) -> Object | None:
    """The condition of this type."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def with_condition(
    conditions: list[Object], kind: str, status: str, reason: str, message: str, now: datetime, **fields: Any
) -> list[Object]:
    """The list with this condition: unchanged when status and reason are the same, in place otherwise.

    `lastTransitionTime` moves with the status only. `fields` are further fields, such as `lastUpdateTime`.
    """
    known = find(conditions, kind)
    if known is not None and (known.get("status"), known.get("reason")) == (status, reason):
        return conditions
    moment = timestamp(now)
    since = known["lastTransitionTime"] if known is not None and known.get("status") == status else moment
    made = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since, **fields}
    if known is None:
        return [*conditions, made]
    return [made if condition is known else condition for condition in conditions]


def without_condition(conditions: list[Object], kind: str) -> list[Object]:
    """The list without this condition."""
    return [condition for condition in conditions if condition.get("type") != kind]


def compact(status: Mapping[str, Any], *always: str) -> Object:
    """A status as Go writes it: zeros and empty lists are left out, except for the fields named."""
    return {name: value for name, value in status.items() if name in always or value not in (0, "", None, [])}


def scaled(amount: Any, total: int, *, round_up: bool) -> int:
    """A number, or a percentage of the total."""
    if isinstance(amount, str) and amount.endswith("%"):
        product = int(amount.removesuffix("%")) * total
        return -(-product // 100) if round_up else product // 100
    return int(amount)
