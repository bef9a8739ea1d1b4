"""Tasks with owners, time as an argument, and patience.

The problem: in asyncio a task can be started and forgotten, a failure can be swallowed, and code that reads the clock
cannot be tested. The idea: every task has an owner, a name and an end (`running`, `TaskSet`); time comes from a `Clock`
that is virtual in tests; back-off and rate limit are values that say how long to wait. Nothing here knows Kubernetes.
"""

from kscheduler.aio.backoff import Backoff
from kscheduler.aio.bell import Bell
from kscheduler.aio.clock import REAL_CLOCK, Clock, RealClock, VirtualClock, finishes_within
from kscheduler.aio.ratelimit import TokenBucket
from kscheduler.aio.services import BackgroundService, ServiceEndedError, running
from kscheduler.aio.slices import Slicer
from kscheduler.aio.tasks import TaskSet, TaskSetStatistics

__all__ = [
    "REAL_CLOCK",
    "BackgroundService",
    "Backoff",
    "Bell",
    "Clock",
    "RealClock",
    "ServiceEndedError",
    "Slicer",
    "TaskSet",
    "TaskSetStatistics",
    "TokenBucket",
    "VirtualClock",
    "finishes_within",
    "running",
]
