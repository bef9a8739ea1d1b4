"""Gates that know which pods they may let in now.

The problem: a thousand preemptors wait for their victims, and each victim that goes would cause a call of the gate for
all of them; as many pods wait for their resource claims, and each claim that comes would. The idea: the plugin says
whom it may let in, in one of two ways, and the queue leaves all others where they are.
"""

from collections.abc import Collection
from typing import Protocol

from kscheduler.framework.plugin import PreEnqueuePlugin
from kscheduler.framework.pods.pod_info import PodInfo


class StandingGate(PreEnqueuePlugin, Protocol):
    """A PreEnqueue plugin that knows which pods it would reject again."""

    def may_let_in(self) -> Collection[str]:
        """Keys (`namespace/name`) of pods that it has rejected and may let in now.

        It would reject all others again with the same status, so the queue need not call it for them.
        """
        ...


class ObjectGate(PreEnqueuePlugin, Protocol):
    """A PreEnqueue plugin that knows for which object each pod waits: the queue files the pods by these.

    While pods wait, its hints must answer for one of them as for any other.
    """

    def gating_objects(self, pod: PodInfo) -> Collection[str] | None:
        """Names, of the plugin's own choice, of objects: it rejects the pod until one of them changes, or the pod.

        `None`: it may let the pod in now. Asked when it has rejected the pod, when the pod has changed, and when one of
        these objects has.
        """
        ...

    def changed_gating_objects(self) -> Collection[str] | None:
        """Names of the objects that have changed since the last call; `None`: perhaps all.

        Asked by one queue. A name that nobody asked about costs nothing.
        """
        ...
