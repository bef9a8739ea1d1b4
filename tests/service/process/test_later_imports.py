"""What the first decisions do not need is imported later, piece by piece."""

import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.service.later_imports import AFTER_SECONDS, BETWEEN_SECONDS, LATER, LaterImports

PIECES = """
import importlib, sys
import kscheduler.service
for name in sys.argv[1:]:
    before = set(sys.modules)
    importlib.import_module(name)
    print(len(sys.modules.keys() - before))
"""


async def test_modules_are_imported_in_their_order_with_rests_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["later_one", "later_missing", "later_two"]
    for name in ("later_one", "later_two"):
        (tmp_path / f"{name}.py").write_text("")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    clock = VirtualClock()
    running = asyncio.create_task(LaterImports(clock, names).run())
    await clock.next_sleep()
    try:
        await clock.advance(AFTER_SECONDS - 1)
        assert not sys.modules.keys() & set(names)
        await clock.advance(1)
        assert sys.modules.keys() & set(names) == {"later_one"}
        await clock.advance(3 * BETWEEN_SECONDS)
        assert sys.modules.keys() & set(names) == {"later_one", "later_two"}
        await clock.advance(3600)
        assert not running.done(), "a service that ends by itself would end the others"
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def test_each_piece_is_a_small_one_that_the_start_has_left() -> None:
    """Modules are counted and not time: a piece of twenty holds the loop for some milliseconds."""
    command = [sys.executable, "-c", PIECES, *LATER]
    pieces = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert len(pieces) == len(LATER)
    assert all(0 < int(piece) <= 20 for piece in pieces), pieces
