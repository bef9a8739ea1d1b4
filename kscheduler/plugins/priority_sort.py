"""PrioritySort: pods of higher priority go first, and among equals those that have waited longer."""

from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.queued_pod import QueuedPodInfo, priority_order


class PrioritySort(Plugin):
    """The order of the active queue."""

    name = "PrioritySort"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, float]:
        """Highest priority first, then the earliest timestamp (refreshed by every attempt, not the pod's creation)."""
        return priority_order(queued)
