"""What an extension point answers: a value, never an exception."""

from dataclasses import dataclass, field
from enum import Enum, IntEnum


class Code(IntEnum):
    """kube-scheduler's status codes, with its numbers."""

    SUCCESS = 0
    ERROR = 1
    """An internal error; the pod is retried with back-off."""
    UNSCHEDULABLE = 2
    """Not here and now; preemption might help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Not here, whatever is preempted."""
    WAIT = 4
    """Permit only: hold the pod back."""
    SKIP = 5
    """PreFilter and PreScore: leave the coupled Filter or Score out. Bind: not my pod."""
    PENDING = 6
    """Rejected, waiting for something outside the cluster; its event bypasses back-off."""

    __hash__ = int.__hash__  # a member is its number, also to a dict; an Enum's own is in Python, and metrics ask often

    @property
    def label(self) -> str:
        """The name that metrics and recorded decisions use."""
        return _LABELS[self]

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was judged and turned down (not an error)."""
        return self in _REJECTED


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


class Fault(Enum):
    """Whose fault an Error is: how long to wait before the next try depends on it."""

    PASSING = "passing"
    """The network's, the server's, or nobody knows: it may be over in a second."""
    REFUSED = "refused"
    """The API server has looked at it and will not have it: an admission webhook, a quota, a validation."""
    BUG = "bug"
    """An exception where an answer was due."""
    GONE = "gone"
    """Nobody's: what was to be written to is no longer there, as the API server says before the watch does."""


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it, and the plugin that gave it."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    fault: Fault = Fault.PASSING
    """Of an Error only."""

    is_success: bool = field(init=False, repr=False, compare=False)
    """Whether the cycle may go on. Asked some thirty times for each pod, so it is no property."""
    is_skip: bool = field(init=False, repr=False, compare=False)
    """Whether the coupled extension point is to be left out."""

    def __post_init__(self) -> None:
        if self.reasons and not (type(self.reasons) is tuple and all(isinstance(one, str) for one in self.reasons)):
            raise TypeError(f"a Status takes its reasons as a tuple of texts, not {self.reasons!r}")
        object.__setattr__(self, "is_success", self.code is Code.SUCCESS)
        object.__setattr__(self, "is_skip", self.code is Code.SKIP)

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was judged and turned down."""
        return self.code.is_rejected

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Status":
        """The same status, attributed to a plugin."""
        return self if plugin == self.plugin else Status(self.code, self.reasons, plugin, self.fault)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str, plugin: str = "") -> Status:
    """A rejection that preemption might lift."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin)


def unresolvable(*reasons: str, plugin: str = "") -> Status:
    """A rejection that no preemption lifts."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, plugin)


def error(*reasons: str, plugin: str = "", fault: Fault = Fault.PASSING) -> Status:
    """A failure of the scheduler or of the API, not a judgement about the pod."""
    return Status(Code.ERROR, reasons, plugin, fault)
