"""Pods whose PreBind is running or done and whose Binding has not been sent: they can still be cancelled.

PreBind may take minutes (volumes, devices), and preemption need not delete a pod that is not bound yet. So each of
these pods can be cancelled with a cause, until the moment when its Binding is sent:

    add --> running --mark_pre_bound--> sent       cancel() returns False: the API server decides now
               |
               +------- cancel -------> cancelled  mark_pre_bound() returns False: the Binding must not be sent
"""

from collections.abc import Callable


class PodInPreBind:
    """A pod in PreBind. The task that runs PreBind listens; a preemption cancels."""

    __slots__ = ("_listener", "_sent", "cause")

    def __init__(self) -> None:
        self.cause = ""
        """Why it was cancelled; empty if it was not."""
        self._sent = False
        self._listener: Callable[[], object] | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether its Binding must not be sent."""
        return bool(self.cause)

    def on_cancel(self, listener: Callable[[], object] | None) -> None:
        """Set the listener for a cancellation while PreBind runs; `None` removes it."""
        self._listener = listener

    def cancel(self, cause: str) -> bool:
        """Cancel it; returns whether that was still possible. The first cause counts."""
        if self._sent:
            return False
        if not self.cause:
            self.cause = cause
            if self._listener is not None:
                self._listener()
        return True

    def mark_pre_bound(self) -> bool:
        """Rule out cancellation, because the Binding is sent now. False if it was cancelled before."""
        if self.cause:
            return False
        self._sent = True
        return True


class PodsInPreBind:
    """All pods in PreBind, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, uid: str) -> PodInPreBind:
        """Record that a pod's PreBind begins."""
        self._pods[uid] = pod = PodInPreBind()
        return pod

    def remove(self, uid: str) -> None:
        """Remove a pod that is bound or has failed."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> PodInPreBind | None:
        """The pod with this UID, if it is in PreBind."""
        return self._pods.get(uid)
