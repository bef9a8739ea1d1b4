"""Checks the shape of a plugin before its first call.

A method with a wrong signature, an `async def` that is never awaited, a Reserve without Unreserve: all of these would
fail for every pod. They are refused when the plugin is built, with a message that says what is expected instead.
"""

import inspect
import math
from collections.abc import Iterator
from inspect import iscoroutinefunction
from typing import Any, Final, TypeGuard

from kscheduler.framework.plugin import PERMIT_TIMEOUT_SECONDS, Plugin, Source
from kscheduler.framework.status import Status
from kscheduler.framework.traits import points_of

_PARAMETERS: Final = {
    "pre_enqueue": "pod",
    "sort_key": "queued",
    "pre_filter": "cycle, pod, nodes",
    "add_pod": "cycle, pod, added, nodes, row",
    "remove_pod": "cycle, pod, removed, nodes, row",
    "move_pods": "cycle, pod, moved, nodes",
    "filter": "cycle, pod, nodes, rows",
    "status": "cycle, code",
    "post_filter": "cycle, pod, nodes, diagnosis",
    "pre_score": "cycle, pod, nodes, rows",
    "score": "cycle, pod, nodes, rows",
    "normalize": "cycle, pod, rows, scores",
    "reserve": "cycle, pod, node_name",
    "unreserve": "cycle, pod, node_name",
    "permit": "cycle, pod, node_name",
    "pre_bind_pre_flight": "cycle, pod, node_name",
    "pre_bind": "cycle, pod, node_name",
    "bind": "cycle, pod, node_name",
    "post_bind": "cycle, pod, node_name",
    "placement_feasible": "group, progress",
    "sign": "pod",
    "may_let_in": "",
    "events_to_register": "",
    "refresh": "",
    "close": "",
}
"""The parameters of each method, without `self`."""
_AWAITED: Final = frozenset(("pre_bind", "bind", "refresh"))
_PLAIN_OR_AWAITED: Final = frozenset(("permit", "post_bind", "close"))
LEAST_REFRESH_INTERVAL: Final = 0.1
"""Seconds. A smaller one is a mistake of units, and would leave no time for decisions."""
_COMPANIONS: Final = {
    "filter": "status",
    "reserve": "unreserve",
    "pre_bind": "pre_bind_pre_flight",
    "add_pod": "remove_pod",
    "remove_pod": "add_pod",
    "move_pods": "add_pod",
}
"""Methods that need another method beside them."""


def contract_problems(plugin: Any, name: str) -> list[str]:
    """The problems of an object built under this name; each a sentence that says what is expected."""
    if isinstance(plugin, type):
        return [f"its factory returned the class {plugin.__name__}: return one of it, made with its arguments"]
    if not points_of(plugin) and not isinstance(plugin, Plugin):
        return [f"its factory returned {plugin!r}, which takes part in no extension point: did it forget a `return`?"]
    return list(_problems(plugin, name))


def _problems(plugin: Any, name: str) -> Iterator[str]:
    own = getattr(plugin, "name", None)
    if own != name:
        yield f"its `name` is {own!r}, and it was registered as {name!r}: let both be the same"
    sources = getattr(plugin, "depends_on", (Source.ANYTHING,))
    if not isinstance(sources, tuple) or not all(isinstance(source, Source) for source in sources):
        yield f"`depends_on` is {sources!r}: let it be a tuple of `Source` members"
    if callable(getattr(plugin, "refresh", None)):
        yield from _interval_problems(getattr(plugin, "refresh_interval", None))
    seconds = getattr(plugin, "permit_timeout_seconds", PERMIT_TIMEOUT_SECONDS)
    if not _is_number(seconds) or not 0 < seconds < math.inf:
        yield f"`permit_timeout_seconds` is {seconds!r}: let it be a number of seconds above 0"
    for method, parameters in _PARAMETERS.items():
        function = getattr(plugin, method, None)
        if function is None:
            continue
        if not callable(function):
            yield f"`{method}` is {function!r}, and no method"
            continue
        yield from _method_problems(method, function, parameters)
        companion = _COMPANIONS.get(method)
        if companion is not None and not callable(getattr(plugin, companion, None)):
            yield f"it has `{method}` and no `{companion}`"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _interval_problems(interval: object) -> Iterator[str]:
    if not _is_number(interval) or not LEAST_REFRESH_INTERVAL <= interval < math.inf:
        yield f"`refresh_interval` is {interval!r}: let it be a number of seconds, {LEAST_REFRESH_INTERVAL} or more"


def _method_problems(method: str, function: Any, parameters: str) -> Iterator[str]:
    if method not in _AWAITED | _PLAIN_OR_AWAITED and (
        iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    ):
        awaited = "permit, pre_bind, bind, post_bind, refresh and close"
        yield f"`{method}` is declared with `async def`: only {awaited} are awaited, make it a plain method"
    elif method in _AWAITED and not _may_be_awaited(function):
        yield f"`{method}` is a plain method: declare it with `async def`"
    try:
        inspect.signature(function).bind(*parameters.split(", ") if parameters else ())
    except TypeError as mistake:
        yield f"`{method}` cannot be called with ({parameters}): {mistake}"
    except ValueError:  # no signature is known, of a builtin for example
        return


def _may_be_awaited(function: Any) -> bool:
    """Whether a call may return an awaitable: a plain method may return another method's coroutine."""
    returns = getattr(function, "__annotations__", {}).get("return", ...)
    return iscoroutinefunction(inspect.unwrap(function)) or returns not in {Status, "Status", None, "None"}
