"""DefaultBinder: tell the API server where the pod goes."""

from kscheduler.framework.binding_annotations import BindingAnnotations
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status


class DefaultBinder(Plugin):
    """Binds every pod through the handle's writer."""

    name = "DefaultBinder"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._writer = handle.writer

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success only once the API server confirms it; the writer handles refusals and unknown outcomes."""
        if BindingAnnotations in cycle.values:  # of few pods: no call for the others
            return await self._writer.bind(pod.pod, node_name, cycle.read(BindingAnnotations).annotations)
        return await self._writer.bind(pod.pod, node_name)
