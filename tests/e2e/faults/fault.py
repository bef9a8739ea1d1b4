"""A fault as a value: which requests it meets, what is done to them, and for how long.

    Fault("binding-500-for-one-namespace", Requests("create", "pods/binding", namespace="*-hurt"), Answer(500))
    Fault("watches-cut-within-a-chunk", Requests("watch", "*"), EndStream("chunk"))
    Fault("binding-applied-then-lost", Requests("create", "pods/binding"), Applied(Reset()))

Everything is fixed beforehand: where chance decides, its generator is seeded with the fault's name. `proxy.py` does
what is written here, `catalogue.py` lists the faults that are played, `lane.py` plays one and judges.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import parse_qs

JSON = "application/json"
TRUE = ("1", "true")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Request:
    """What a request asks for, in the words of the audit log."""

    verb: str
    """get, list, watch, create, update, patch, delete; a watch that begins with all objects is a `watchlist`."""
    resource: str
    """`pods`, `pods/binding`, `leases`; of other paths than objects' the path."""
    namespace: str
    name: str

    @property
    def is_stream(self) -> bool:
        return self.verb in ("watch", "watchlist")


def parse(method: str, target: str) -> Request:
    """The request of a method and a path with its query."""
    path, _, query = target.partition("?")
    parameters = parse_qs(query)
    parts = path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:] if parts[0] == "api" else []
    if not rest:
        return Request("get" if method == "GET" else VERBS.get(method, method), path, "", "")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join((rest[0], *rest[2:]))
    reading = "get" if name else "list"
    if parameters.get("watch", ["0"])[0] in TRUE:
        reading = "watchlist" if parameters.get("sendInitialEvents", ["0"])[0] in TRUE else "watch"
    return Request(VERBS.get(method, reading), resource, namespace, name)


@dataclass(frozen=True, slots=True)
class Requests:
    """Which requests a fault meets; the first three are shell patterns, alternatives divided by `|`."""

    verb: str = "*"
    resource: str = "*"
    namespace: str = "*"
    probability: float = 1.0
    first: int = 0
    """Only so many of them; 0: all."""

    def match(self, request: Request) -> bool:
        pairs = ((self.verb, request.verb), (self.resource, request.resource), (self.namespace, request.namespace))
        return all(any(fnmatchcase(text, one) for one in patterns.split("|")) for patterns, text in pairs)


# --- instead of an answer -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explanation:
    """The proxy answers by itself; the API server never hears of the request."""

    code: int
    body: bytes | None = None
    """None: a Status with this code."""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = JSON


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is forwarded after so long."""

    seconds: float
    then: "Action | None" = None


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer while the fault lasts; its connection is reset then, or `for_ever` left as it is."""

    for_ever: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset, or `quietly` closed, without an answer."""

    quietly: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """The API server applies the request, and its answer is lost: `then` happens."""

    then: "Explanation | Hang | Reset | Delay"


@dataclass(frozen=True, slots=True)
class Raw:
    """These bytes are the answer, whatever they are; the API server never hears of the request."""

    data: bytes
    closes: bool = True


# --- to the answer --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """The answer ends in the middle: of its declared length, or of a chunk that promised more."""

    within: Literal["length", "chunk", "head"] = "length"
    resets: bool = False


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """The answer comes by so many bytes a second."""

    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class TwiceAnswered:
    """The answer comes twice, so that the second one waits in the connection for the next request."""


@dataclass(frozen=True, slots=True)
class Edited:
    """The answer's body is another one, of the right length."""

    edit: Callable[[bytes], bytes]


# --- to the stream of a watch ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndStream:
    """Open streams end when the fault begins, new ones at their first event: in order, or within a line or a chunk."""

    within: Literal["order", "line", "chunk", "reset"] = "order"


@dataclass(frozen=True, slots=True)
class StallStream:
    """Nothing passes and nobody is told; then what was held back passes, or the connection is reset."""

    passes_later: bool = True
    for_ever: bool = False


@dataclass(frozen=True, slots=True)
class Injected:
    """A line that the API server never wrote: into open streams when the fault begins, first into new ones."""

    line: bytes


@dataclass(frozen=True, slots=True)
class EachEvent:
    """Each line of a stream becomes these lines; bookmarks are left as they are."""

    edit: Callable[[bytes], list[bytes]]


@dataclass(frozen=True, slots=True)
class Swapped:
    """Each two events of a stream change places."""


# --- to connections -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Open connections are reset and new ones refused, or, `silently`, accepted while nothing passes on any of them."""

    silently: bool = False


Action = (
    Explanation
    | Delay
    | Hang
    | Reset
    | Applied
    | Raw
    | CutAnswer
    | SlowAnswer
    | TwiceAnswered
    | Edited
    | EndStream
    | StallStream
    | Injected
    | EachEvent
    | Swapped
    | Unreachable
)
STREAM_ACTIONS = (EndStream, StallStream, Injected, EachEvent, Swapped)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and what must hold nevertheless. After it all pods are bound within `heals_within` seconds."""

    id: str
    requests: Requests
    does: Action
    seconds: float = 2.0
    """How long it lasts."""
    on_off: tuple[float, float] | None = None
    """Within that time it comes and goes: seconds on, seconds off."""
    open_watches: Literal["stay", "end", "expire"] = "stay"
    """What becomes of them when it begins: they end and are opened again, or with 410, and all is listed again."""
    heals_within: float = 60.0
    hurt_pods: int = 8
    """How many pods of the namespace that is hurt are made while it lasts."""
    spares_others: bool = False
    """Pods of another namespace must be bound while it lasts."""
    loses_events: bool = False
    """Changes of the cluster are truly withheld, so that an alarm about drift is no false one."""
    traffic: Literal["flow", "preemption", "claims", "volumes"] = "flow"
    """What is made meanwhile: pods that need nothing else, pods that need others' room, pods with a device each,
    or with a volume each: a disk that is there, or one that is made for them."""
    elects: bool = False
    """With leader election; a process that ends, since it has lost its Lease, is started again."""
    speaks_http: bool = True
    """False: what answers truly does not, and may be called so."""
    reported: tuple[str, ...] = ()
    """Regular expressions of what log, metrics or readiness say while it lasts."""
    is_long: bool = False
    """It takes minutes: played with KSCHEDULER_LONG=1 only."""
    is_rare: bool = False
    """Others say nearly as much: played with KSCHEDULER_FAULTS=all only."""
