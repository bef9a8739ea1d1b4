"""A gate that knows for whom it stays shut.

The problem: a thousand preemptors wait for their victims, and each victim that goes would have the gate asked about all
of them. The idea: the plugin tells whom it may let in now; the queue leaves all others where they are.
"""

from collections.abc import Collection
from typing import Protocol

from kscheduler.framework.plugin import PreEnqueuePlugin


class StandingGate(PreEnqueuePlugin, Protocol):
    """A PreEnqueue plugin that knows whom it would turn away again."""

    def may_let_in(self) -> Collection[str]:
        """Keys (`namespace/name`) of pods that it has turned away and may let in now.

        Whoever else it turned away last it would turn away again in the same words, and asking would change nothing.
        """
        ...
