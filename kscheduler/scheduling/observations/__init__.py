"""What the scheduler counts: `Observations` has a method per observation point, and an attribute per series.

Series are plain numbers here (`telemetry.series`). Label values are names of
profiles, plugins, events and outcomes, never a user's text.
"""

from kscheduler.scheduling.observations.declared_series import (
    OF_COMPOSITE,
    OF_GROUP,
    OF_POD,
    SINGLE_POD,
    AttemptResult,
    GroupAttemptResult,
)
from kscheduler.scheduling.observations.observation_points import SETTLED_EVERY, Observations

__all__ = [
    "OF_COMPOSITE",
    "OF_GROUP",
    "OF_POD",
    "SETTLED_EVERY",
    "SINGLE_POD",
    "AttemptResult",
    "GroupAttemptResult",
    "Observations",
]
