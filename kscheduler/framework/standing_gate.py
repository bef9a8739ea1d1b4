"""A gate that knows which pods it may let in now.

The problem: a thousand preemptors wait for their victims, and each victim that goes would cause a call of the gate for
all of them. The idea: the plugin lists the pods that it may let in now; the queue leaves all others where they are.
"""

from collections.abc import Collection
from typing import Protocol

from kscheduler.framework.plugin import PreEnqueuePlugin


class StandingGate(PreEnqueuePlugin, Protocol):
    """A PreEnqueue plugin that knows which pods it would reject again."""

    def may_let_in(self) -> Collection[str]:
        """Keys (`namespace/name`) of pods that it has rejected and may let in now.

        It would reject all others again with the same status, so the queue need not call it for them.
        """
        ...
