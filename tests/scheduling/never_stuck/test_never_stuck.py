"""Never stuck: after any history, a pod that waits for an event truly fits nowhere.

100 short histories in CI, 33 elsewhere; with KSCHEDULER_FUZZ=1 half as many as there are examples otherwise (`make
fuzz`: ten rounds of 1,000), of 50 steps each.
"""

from hypothesis import HealthCheck, settings

from tests.effort import IS_LONG, example_count
from tests.scheduling.never_stuck.machine import NeverStuck

TestNeverStuck = NeverStuck.TestCase
TestNeverStuck.settings = settings(
    max_examples=settings().max_examples // 2 if IS_LONG else example_count(100),
    stateful_step_count=50 if IS_LONG else 15,
    suppress_health_check=[*HealthCheck],
)
