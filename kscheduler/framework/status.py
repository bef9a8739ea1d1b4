"""The result of an extension point: a value, never an exception."""

from dataclasses import dataclass, field
from enum import Enum, IntEnum


class Code(IntEnum):
    """kube-scheduler's status codes, with its numbers."""

    SUCCESS = 0
    """The cycle goes on."""
    ERROR = 1
    """An internal error; the pod is retried with backoff."""
    UNSCHEDULABLE = 2
    """Not here and now; preemption might help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Not here, even if all pods were preempted."""
    WAIT = 4
    """Permit only: hold the pod back."""
    SKIP = 5
    """PreFilter and PreScore: skip the coupled Filter or Score. Bind: not my pod."""
    PENDING = 6
    """Rejected, waiting for something outside the cluster; its event bypasses backoff."""

    __hash__ = int.__hash__  # Enum's own `__hash__` is slow (Python code), and metrics hash members often

    @property
    def label(self) -> str:
        """The name that metrics and recorded decisions use."""
        return _LABELS[self]

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected (not an error)."""
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
    """The cause of an Error: the wait before the next try depends on it."""

    PASSING = "passing"
    """The network, the server, or unknown: it may be over in a second."""
    REFUSED = "refused"
    """The API server has refused the request: an admission webhook, a quota, a validation."""
    BUG = "bug"
    """An exception instead of a result."""
    QUARANTINED = "quarantined"
    """A plugin is no longer called, and its profile schedules no pod until another configuration or a reload."""
    HELD_BACK = "held back"
    """A plugin is not called for the pod for a while, because its calls took too long. It says nothing of this pod."""
    ON_TRIAL = "on trial"
    """A plugin that failed is called again, and not for this pod first. It says nothing of this pod, either."""
    GONE = "gone"
    """No fault: the object to be written is gone; the API server says so before the watch does."""
    OVER_BUDGET = "over budget"
    """Deciding took too long and was ended: the pod's author has put too much into it."""
    CLAIM = "claim"
    """What a claim, its class or a device says cannot be evaluated: its author must change it."""
    POD_GROUP = "pod group"
    """What the groups and pods of one tree say does not go together: their author must change it."""


class StatusError(Exception):
    """Ends a call with an Error of this text where the result has no room for a Status: in Filter and in Score.

    It is a result and no bug: the pod is told, and nothing else is reported.
    """

    def __init__(self, text: str, fault: Fault = Fault.PASSING) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it, and the plugin that gave it.

    Raises `TypeError` for reasons that are no tuple of texts.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    """For messages, conditions and Events; nodes with equal reasons are counted together."""
    plugin: str = ""
    """The plugin's name. A plugin may leave it empty: the scheduler knows whom it has called."""
    fault: Fault = Fault.PASSING
    """For an Error only."""

    is_success: bool = field(init=False, repr=False, compare=False)
    """Whether the cycle may go on. A field and not a property, because it is read some thirty times for each pod."""
    is_skip: bool = field(init=False, repr=False, compare=False)
    """Whether the coupled extension point is skipped."""

    def __post_init__(self) -> None:
        if self.reasons and not (
            type(self.reasons) is tuple and all(isinstance(reason, str) for reason in self.reasons)
        ):
            raise TypeError(f"a Status takes its reasons as a tuple of texts, not {self.reasons!r}")
        object.__setattr__(self, "is_success", self.code is Code.SUCCESS)
        object.__setattr__(self, "is_skip", self.code is Code.SKIP)

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected."""
        return self.code.is_rejected

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Status":
        """The same status, attributed to a plugin."""
        return self if plugin == self.plugin else Status(self.code, self.reasons, plugin, self.fault)


# The cycle goes on. Statuses are immutable, so that all who have no more to say share one.
SUCCESS = Status()
# PreFilter and PreScore: the coupled Filter or Score is skipped. Bind: not this plugin's pod.
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str, plugin: str = "") -> Status:
    """A rejection that preemption might lift."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin)


def unresolvable(*reasons: str, plugin: str = "") -> Status:
    """A rejection that preemption cannot lift."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, plugin)


def error(*reasons: str, plugin: str = "", fault: Fault = Fault.PASSING) -> Status:
    """A failure of the scheduler or of the API, not a judgement about the pod."""
    return Status(Code.ERROR, reasons, plugin, fault)
