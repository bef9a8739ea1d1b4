"""Listeners for changes of claims, volumes and pods.

Thousands of pods may wait for their volumes at a time, and each event concerns one or two of them: waking all of them
each time would have quadratic cost. So listeners are filed under the subjects that they wait for.
"""

from collections.abc import Callable, Iterable

from kscheduler.framework.cluster.volumes import Subject

Listener = Callable[[], None]


class VolumeListeners:
    """Listeners by subject."""

    def __init__(self) -> None:
        self._listeners: dict[Subject, list[Listener]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._listeners.values()))

    def add(self, subjects: Iterable[Subject], listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change of the subjects; returns a function that ends the subscription."""
        filed = tuple(subjects)
        for subject in filed:
            self._listeners.setdefault(subject, []).append(listener)
        return lambda: self._remove(filed, listener)

    def notify(self, subject: Subject) -> None:
        """Call the listeners of a subject that has changed."""
        if self._listeners:
            for listener in tuple(self._listeners.get(subject, ())):
                listener()

    def _remove(self, subjects: Iterable[Subject], listener: Listener) -> None:
        for subject in subjects:
            listeners = self._listeners[subject]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[subject]
