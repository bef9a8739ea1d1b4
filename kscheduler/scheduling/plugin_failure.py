"""A plugin that fails ends the cycle: what is raised between its call and the record."""


class PluginFailure(Exception):  # noqa: N818  the field's word: a plugin failed, the cycle ends with an Error
    """A plugin raised, or answered with an Error. The text is kube-scheduler's."""
