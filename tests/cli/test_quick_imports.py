"""The garbage collector pauses while modules are imported, and no longer; it does not walk over what they made."""

import gc

import pytest

from kscheduler.cli import build_parser
from kscheduler.cli.quick_imports import collector_pauses


def test_it_runs_again_afterwards_whatever_happens() -> None:
    def fails() -> None:
        with collector_pauses():
            assert not gc.isenabled()
            raise ImportError

    assert gc.isenabled()
    with pytest.raises(ImportError):
        fails()
    assert gc.isenabled()


def test_a_pause_within_a_pause_does_not_end_it() -> None:
    with collector_pauses():
        with collector_pauses():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_made_meanwhile_is_not_walked_afterwards() -> None:
    try:
        with collector_pauses():
            made: list[list[object]] = [[] for _ in range(1000)]
        assert not {id(one) for one in gc.get_objects()} & {id(one) for one in made}
    finally:
        gc.unfreeze()


def test_a_command_is_run_with_the_collector() -> None:
    build_parser(("run",))
    assert gc.isenabled()
