"""Namespaces, from their informer to the counters: namespace selectors follow labels as they are now."""

from kscheduler.api.core import Namespace
from kscheduler.state.topology import TopologyCounts


class NamespaceHandler:
    """Implements `informers.Handler`. As upstream, no plugin registers events of namespaces: the queue is not told."""

    def __init__(self, counters: TopologyCounts) -> None:
        self._counters = counters

    def on_add(self, obj: Namespace, initial: bool) -> None:
        """A namespace has appeared."""
        del initial
        self._counters.set_namespace(obj)

    def on_update(self, old: Namespace, new: Namespace) -> None:
        """A namespace has changed."""
        del old
        self._counters.set_namespace(new)

    def on_delete(self, obj: Namespace) -> None:
        """A namespace is gone."""
        self._counters.remove_namespace(obj.metadata.name)
