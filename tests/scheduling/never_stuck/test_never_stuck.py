"""Never stuck: after any history, a pod that waits for an event truly fits nowhere.

100 short histories by default; with KSCHEDULER_FUZZ=1 half as many as there are examples otherwise (`make fuzz`: ten
rounds of 1,000), of 50 steps each.
"""

import os

from hypothesis import HealthCheck, settings

from tests.scheduling.never_stuck.machine import NeverStuck

_IS_LONG = os.environ.get("KSCHEDULER_FUZZ") == "1"

TestNeverStuck = NeverStuck.TestCase
TestNeverStuck.settings = settings(
    max_examples=settings().max_examples // 2 if _IS_LONG else 100,
    stateful_step_count=50 if _IS_LONG else 15,
    suppress_health_check=[*HealthCheck],
)
