"""Tasks with owners, time as an argument, backoff and rate limits.

The problem: in asyncio a task can be started and forgotten, a failure can be swallowed, and code that reads the clock
cannot be tested. The idea: every task has an owner, a name and an end (`running`, `TaskSet`); time comes from a `Clock`
that is virtual in tests; backoff and rate limit are values that say how long to wait. Nothing here knows Kubernetes.
"""

from kscheduler.aio.clock import REAL_CLOCK, Clock, RealClock, VirtualClock, finishes_within
from kscheduler.aio.rate_limiters import Backoff, TokenBucket
from kscheduler.aio.tasks import (
    BackgroundService,
    ServiceEndedError,
    Slicer,
    TaskSet,
    TaskSetStatistics,
    WakeupEvent,
    running,
)

__all__ = [
    "REAL_CLOCK",
    "BackgroundService",
    "Backoff",
    "Clock",
    "RealClock",
    "ServiceEndedError",
    "Slicer",
    "TaskSet",
    "TaskSetStatistics",
    "TokenBucket",
    "VirtualClock",
    "WakeupEvent",
    "finishes_within",
    "running",
]
