"""A plugin of pytest that keeps the garbage collector from walking all tests and modules again and again.

The problem: they are a million objects, which a full collection walks for half a second. A service in the process of
the tests freezes what there is and thaws it at its end (`kscheduler/aio/collector.py`): what was frozen counts as new
then, and the next full collection is due at once, after each of some hundred tests. The idea: what exists before the
first test is frozen, and again before the test after one that thawed. What such a test left in cycles is frozen with
it: every tenth time it is collected before, so that it cannot add up.
"""

import gc
from typing import Final

import pytest

_THAWS_UNTIL_COLLECTED: Final = 10


class SetAside:
    """The hooks, and whether somebody thawed since the last freeze."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._unfreeze = gc.unfreeze
        self._is_thawed = False
        self._thaws = 0

    def pytest_collection_finish(self) -> None:
        """Before the first test."""
        self._patch.setattr(gc, "unfreeze", self._thaw)
        gc.collect()
        gc.freeze()

    def pytest_runtest_logstart(self) -> None:
        """Before each test. Asking `gc.get_freeze_count` would walk what is frozen."""
        if self._is_thawed:
            self._is_thawed = False
            self._thaws += 1
            if self._thaws % _THAWS_UNTIL_COLLECTED == 0:
                gc.collect()
            gc.freeze()

    def pytest_sessionfinish(self) -> None:
        """Thaw: when all has ended, pytest looks for what was never closed, among these, too."""
        self._patch.undo()
        gc.unfreeze()

    def _thaw(self) -> None:
        self._is_thawed = True
        self._unfreeze()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SetAside())
