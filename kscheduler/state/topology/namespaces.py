"""The namespaces' labels, as namespace selectors see them."""

from collections.abc import Mapping

from kscheduler.api.core import Namespace


class NamespaceLabels:
    """Labels by name."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def set(self, namespace: Namespace) -> bool:
        """A namespace is there or has changed. Returns whether a selector could see the difference."""
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if self._labels.get(name) == labels:
            return False
        self._labels[name] = labels
        return True

    def remove(self, name: str) -> bool:
        """A namespace is gone. Returns whether it was known."""
        return self._labels.pop(name, None) is not None

    def of(self, name: str) -> Mapping[str, str] | None:
        """A namespace's labels; `None` where nobody knows it."""
        return self._labels.get(name)
