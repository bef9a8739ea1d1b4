"""Pods whose PreBind is running or done and whose Binding has not been sent: they can still be called back.

PreBind may take minutes (volumes, devices), and preemption need not delete a pod that has not even arrived. So each of
them can be cancelled with a cause, until the one moment when its Binding goes out:

    add --> running --mark_pre_bound--> sent       cancel() says no: the API server has the word
               |
               +------- cancel -------> cancelled  mark_pre_bound() says no: the Binding must not be sent
"""

from collections.abc import Callable


class PodInPreBind:
    """One of them. Whoever runs its PreBind listens; whoever preempts it cancels."""

    __slots__ = ("_listener", "_sent", "cause")

    def __init__(self) -> None:
        self.cause = ""
        """Why it was cancelled; empty while it was not."""
        self._sent = False
        self._listener: Callable[[], object] | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether its Binding must not be sent."""
        return bool(self.cause)

    def on_cancel(self, listener: Callable[[], object] | None) -> None:
        """Be told of a cancellation while PreBind runs; `None` when it runs no longer."""
        self._listener = listener

    def cancel(self, cause: str) -> bool:
        """Call it back; whether that was still possible. The first cause counts."""
        if self._sent:
            return False
        if not self.cause:
            self.cause = cause
            if self._listener is not None:
                self._listener()
        return True

    def mark_pre_bound(self) -> bool:
        """From here on it cannot be cancelled: the Binding goes out. False if it was cancelled before."""
        if self.cause:
            return False
        self._sent = True
        return True


class PodsInPreBind:
    """All of them, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, uid: str) -> PodInPreBind:
        """A pod's PreBind begins."""
        self._pods[uid] = one = PodInPreBind()
        return one

    def remove(self, uid: str) -> None:
        """It is bound, or has failed."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> PodInPreBind | None:
        """One of them."""
        return self._pods.get(uid)
