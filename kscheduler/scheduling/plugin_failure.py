"""A plugin that fails ends the cycle: what is raised between its call and the record."""

from kscheduler.framework.status import Fault, Status, error


class PluginFailure(Exception):  # noqa: N818  the field's word: a plugin failed, the cycle ends with an Error
    """A plugin raised, or answered with an Error. The text is kube-scheduler's."""

    @property
    def status(self) -> Status:
        """The Error that ends the cycle: a bug where the plugin raised, not where it answered so."""
        return error(str(self), fault=Fault.PASSING if self.__cause__ is None else Fault.BUG)
