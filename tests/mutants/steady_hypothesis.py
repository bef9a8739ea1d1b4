"""Hypothesis made steady and short, for the map and the trials alike.

The same examples each time, or a mutant's verdict would be a matter of luck and a line's tests another set each day. No
shrinking: that a test fails is enough. No database: an example that a mutant broke must not turn up in a run of the
suite. Fewer examples than the suite draws: what only the hundredth finds counts as found by nobody.
"""

from hypothesis import Phase, settings

EXAMPLES = 60


class SteadyHypothesis:
    """A pytest plugin: loads the profile after `tests/conftest.py` has loaded its own, before tests are collected."""

    def pytest_sessionstart(self) -> None:
        """Derive from the profile of the suite."""
        settings.register_profile(
            "mutants",
            settings.get_profile("ci"),
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            print_blob=False,
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutants")
