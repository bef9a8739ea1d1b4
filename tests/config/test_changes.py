"""What differs between two configurations, and what of it a running process cannot take over."""

from typing import Any

import msgspec
import pytest

from kscheduler.config.changes import EXCHANGEABLE, changed_fields, restart_problems
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.config.types import KubeSchedulerConfiguration


def loaded(**fields: Any) -> LoadedConfig:
    return from_tree(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}, "f"
    )


def test_nothing_differs_where_only_the_spelling_does() -> None:
    assert changed_fields(loaded(), loaded(percentageOfNodesToScore=0, profiles=[{}])) == ()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"profiles": [{"schedulerName": "a"}]}, "profiles"),
        ({"extenders": [{"urlPrefix": "http://x", "filterVerb": "f"}]}, "extenders"),
        ({"parallelism": 3}, "parallelism"),
        ({"percentageOfNodesToScore": 3}, "percentageOfNodesToScore"),
        ({"podInitialBackoffSeconds": 3}, "podInitialBackoffSeconds"),
        ({"podMaxBackoffSeconds": 30}, "podMaxBackoffSeconds"),
    ],
)
def test_what_can_be_taken_over(fields: dict[str, Any], path: str) -> None:
    assert changed_fields(loaded(), loaded(**fields)) == (path,)
    assert restart_problems(loaded(), loaded(**fields)) == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"leaderElection": {"leaseDuration": "20s"}},
            'leaderElection.leaseDuration: needs a restart: it is "15s" in this process, and "20s" in the file',
        ),
        (
            {"clientConnection": {"qps": 50}},
            "clientConnection.qps: needs a restart: it is unset in this process, and set in the file",
        ),
        (
            {"clientConnection": {"qps": 70}},
            "clientConnection.qps: needs a restart: it is 50.0 in this process, and 70.0 in the file",
        ),
        ({"delayCacheUntilActive": True}, "delayCacheUntilActive: needs a restart: it is false in this process"),
        ({"enableContentionProfiling": False}, "enableContentionProfiling: needs a restart: it is true in this"),
    ],
)
def test_what_needs_a_restart(fields: dict[str, Any], problem: str) -> None:
    (found,) = restart_problems(loaded(), loaded(**fields))
    assert str(found).startswith(problem)


def test_each_name_that_can_be_taken_over_is_a_field() -> None:
    assert set(KubeSchedulerConfiguration.__struct_encode_fields__) >= EXCHANGEABLE


def test_every_other_field_is_reported_when_it_differs() -> None:
    """A field that is added to the type is either exchanged or refused: none is ignored in silence."""
    base = loaded()
    for name, encoded in zip(
        KubeSchedulerConfiguration.__struct_fields__, KubeSchedulerConfiguration.__struct_encode_fields__, strict=True
    ):
        value = getattr(base.configuration, name)
        if isinstance(value, msgspec.Struct) or encoded in EXCHANGEABLE:
            continue
        other = msgspec.structs.replace(base.configuration, **{name: not value})
        problems = restart_problems(base, LoadedConfig(other, base.as_given, base.given, base.gates, base.where))
        assert [problem.path for problem in problems] == [encoded]
