"""A plugin that fails ends the cycle: what is raised between its call and the record."""

from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import Fault, Status, error


class PluginFailure(Exception):  # noqa: N818  the field's word: a plugin failed, the cycle ends with an Error
    """A plugin raised, or answered with an Error. The text is kube-scheduler's."""

    def __init__(self, text: str, plugin: str, point: str) -> None:
        super().__init__(text)
        self.plugin = plugin
        self.point = point

    @property
    def status(self) -> Status:
        """The Error that ends the cycle: a bug where the plugin raised, not where it answered so."""
        return error(str(self), fault=Fault.PASSING if self.__cause__ is None else Fault.BUG)

    def tell(self, listener: PluginListener, pod: PodInfo) -> None:
        """Report what the plugin raised; an Error that it answered with is its right."""
        if self.__cause__ is not None:
            listener.failed(self.plugin, self.point, pod, self.__cause__)
