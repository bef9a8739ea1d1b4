"""How hard the property tests try: 60 examples by default, 20,000 with KSCHEDULER_FUZZ=1 (`make fuzz`).

KSCHEDULER_EXAMPLES sets another number for the long run. Hypothesis keeps what every example of a run has drawn, 0.1 MB
each for a long history: `make fuzz` runs the state machines in rounds of 2,000, each a process of its own.
"""

import os
import signal

from hypothesis import HealthCheck, settings

# A shell that runs the tests in the background has them ignore it, and the services that they start would inherit that.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

pytest_plugins = ("tests.set_aside", "tests.specification.tally")

# A loaded machine is slow, and slowness is no fault of a rule: there is neither a deadline nor a check for it.
_PATIENT = [HealthCheck.too_slow]

settings.register_profile(
    "default",
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=_PATIENT,
)
_LONG = int(os.environ.get("KSCHEDULER_EXAMPLES", "20000"))
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=_LONG)
settings.load_profile("fuzz" if os.environ.get("KSCHEDULER_FUZZ") == "1" else "default")
