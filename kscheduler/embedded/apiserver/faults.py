"""Fault injection as data: what goes wrong, for which requests, how often.

    faults.add(Fault("answer", method="POST", path="*/binding", code=429, retry_after_seconds=1, count=3))
    faults.add(Fault("apply_then_reset", method="POST", path="*/binding", probability=0.1))
    faults.add(Fault("delay", seconds=0.2))
    faults.drop_watches() ; faults.stall_watches() ; faults.resume_watches() ; faults.expire_history()

A fault applies to requests that match its method and path (shell patterns, the path without its query), `count` times
or forever, each time with its probability, drawn from a seeded generator. Watch faults (`cut_event`,
`lose_event`, `duplicate_event`) match the watch's path and apply to its next event.

If the server was started with it enabled, POST /_faults accepts the same as JSON:
`{"add": {"action": "answer", "path": "*", "code": 500}}`, `{"do": "drop_watches"}`, `{"clear": true}`.
"""

import random
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal, get_args

import msgspec

from kscheduler.api.machinery.api_errors import ApiError

Action = Literal["answer", "delay", "reset", "apply_then_reset", "cut_event", "lose_event", "duplicate_event"]

REQUEST_ACTIONS: frozenset[str] = frozenset({"answer", "delay", "reset", "apply_then_reset"})
WATCH_ACTIONS: frozenset[str] = frozenset({"cut_event", "lose_event", "duplicate_event"})
_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


class InjectedFault(msgspec.Struct, forbid_unknown_fields=True):
    """A fault to inject."""

    action: Action
    """answer: refuse with `code`. delay: wait `seconds` first. reset: cut the connection before handling the request.
    apply_then_reset: handle it, then cut the connection. cut_event: end a watch inside a line. lose_event,
    duplicate_event: drop or repeat an event of a watch.
    """
    method: str = "*"
    """HTTP method, a shell pattern."""
    path: str = "*"
    """URL path without the query, a shell pattern."""
    count: int | None = None
    """How many more times it applies; None means forever."""
    probability: float = 1.0
    """The chance that it applies to a matching request."""
    code: int = 500
    """For `answer`."""
    retry_after_seconds: int = 0
    """For `answer`: the Retry-After header; 0 means none."""
    seconds: float = 0.0
    """For `delay`."""

    def matches(self, method: str, path: str) -> bool:
        """Whether it may apply to this request."""
        return self.count != 0 and fnmatchcase(method, self.method) and fnmatchcase(path, self.path)

    def error(self) -> ApiError:
        """The refusal of `answer`."""
        details = {"retryAfterSeconds": self.retry_after_seconds} if self.retry_after_seconds else {}
        reason = _REASONS.get(self.code, "")
        return ApiError(self.code, reason, f"injected fault: {self.code} {reason}".rstrip(), details)


Command = Literal["drop_watches", "stall_watches", "resume_watches", "expire_history"]


class FaultRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /_faults; its parts are executed in the order clear, add, do."""

    clear: bool = False
    add: InjectedFault | list[InjectedFault] | None = None
    do: Command | None = None


def mistake_in(error: msgspec.DecodeError) -> str:
    """What is wrong with a body of POST /_faults; of a word that is none of those accepted, what they are."""
    text = str(error)
    if not text.startswith("Invalid enum value"):
        return text
    return f"{text}: there are {', '.join(get_args(Command if text.endswith('`$.do`') else Action))}"


def _nothing() -> None:
    """The default of a command before a server has connected its own."""


class Faults:
    """The active faults. The server connects the watch and history commands."""

    def __init__(self, seed: int = 0) -> None:
        self.active: list[InjectedFault] = []
        self.happened: dict[str, int] = {}
        self.drop_watches: Callable[[], None] = _nothing
        self.stall_watches: Callable[[], None] = _nothing
        self.resume_watches: Callable[[], None] = _nothing
        self.expire_history: Callable[[], None] = _nothing
        self._random = random.Random(seed)

    def add(self, fault: InjectedFault) -> InjectedFault:
        """Activate a fault; faults apply in the order in which they were added."""
        self.active.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults; stalled watches go on."""
        self.active.clear()
        self.resume_watches()

    def for_request(self, method: str, path: str) -> list[InjectedFault]:
        """The faults for this request; their counts are decreased."""
        return self._draw(REQUEST_ACTIONS, method, path) if self.active else []

    def for_event(self, path: str) -> InjectedFault | None:
        """The fault for the next event of the watch on this path; its count is decreased."""
        if not self.active:
            return None
        return next(iter(self._draw(WATCH_ACTIONS, "GET", path)), None)

    def obey(self, request: FaultRequest) -> None:
        """Execute an administrator's request."""
        # The order is fixed: a request may clear old faults, add new ones and then drop the watches.
        if request.clear:
            self.clear()
        added = request.add
        for fault in [added] if isinstance(added, InjectedFault) else added or ():
            self.add(fault)
        match request.do:
            case "drop_watches":
                self.drop_watches()
            case "stall_watches":
                self.stall_watches()
            case "resume_watches":
                self.resume_watches()
            case "expire_history":
                self.expire_history()
            case None:
                pass

    def _draw(self, actions: Iterable[str], method: str, path: str) -> list[InjectedFault]:
        return [fault for fault in self.active if fault.action in actions and self._happens(fault, method, path)]

    def _happens(self, fault: InjectedFault, method: str, path: str) -> bool:
        if not fault.matches(method, path):
            return False
        if fault.probability < 1.0 and self._random.random() >= fault.probability:
            return False
        if fault.count is not None:
            fault.count -= 1
        self.happened[fault.action] = self.happened.get(fault.action, 0) + 1
        return True
