"""The namespaces' labels, as namespace selectors see them."""

from collections.abc import Mapping

from kscheduler.api.core import Namespace


class NamespaceLabels:
    """Labels by name."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def set(self, namespace: Namespace) -> bool:
        """Add or update a namespace. Returns whether its labels have changed."""
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if self._labels.get(name) == labels:
            return False
        self._labels[name] = labels
        return True

    def remove(self, name: str) -> bool:
        """Remove a namespace. Returns whether it was known."""
        return self._labels.pop(name, None) is not None

    def of(self, name: str) -> Mapping[str, str] | None:
        """A namespace's labels; `None` if it is unknown."""
        return self._labels.get(name)

    def names(self) -> tuple[str, ...]:
        """The names of all that are known."""
        return tuple(self._labels)
