"""`timeBudget` and `onFailure` of `pluginConfig`: kscheduler's own fields."""

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import dump, load_bytes

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PATH = "profiles[0].pluginConfig[0]"


def problems(entry: str, more: str = "") -> list[str]:
    try:
        load_bytes(f"{HEAD}{more}\nprofiles: [{{pluginConfig: [{{{entry}}}]}}]".encode(), "f")
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


TIGHT = "leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 2s}"
RANGE = "not in valid range [1ms-2s]"
MARGIN = "must be less than leaderElection.leaseDuration - renewDeadline: a renewal would come too late"


@pytest.mark.parametrize(
    ("entry", "more", "expected"),
    [
        ("name: Mine, timeBudget: 1ms, onFailure: Fallback", "", []),
        ("name: Mine, timeBudget: 2s", "", []),
        ("name: Mine, timeBudget: 0s", "", [f'{PATH}.timeBudget: Invalid value: "0s": {RANGE}']),
        ("name: Mine, timeBudget: 2001ms", "", [f'{PATH}.timeBudget: Invalid value: "2.001s": {RANGE}']),
        ("name: Mine, timeBudget: 1s", TIGHT, [f'{PATH}.timeBudget: Invalid value: "1s": {MARGIN}']),
        ("name: Mine, timeBudget: 999ms", TIGHT, []),
        ("name: Mine, timeBudget: 1s", TIGHT.replace("{", "{leaderElect: false, "), []),
        (
            "name: Mine, onFailure: ignore",
            "",
            [f'{PATH}.onFailure: Unsupported value: "ignore": supported values: "Fail", "Ignore", "Fallback"'],
        ),
        (
            "name: NodeResourcesFit, timeBudget: 1s, onFailure: Fail",
            "",
            [
                f"{PATH}.timeBudget: Forbidden: it is for plugins that are not in-tree",
                f"{PATH}.onFailure: Forbidden: it is for plugins that are not in-tree",
            ],
        ),
    ],
)
def test_what_is_allowed(entry: str, more: str, expected: list[str]) -> None:
    assert [problem.partition(": did")[0] for problem in problems(entry, more)] == expected


def test_a_budget_without_a_unit_names_the_field() -> None:
    (problem,) = problems("name: Mine, timeBudget: 200")
    assert problem.startswith(f"{PATH}.timeBudget: ")


def test_the_fields_are_written_where_they_are_set_and_nowhere_else() -> None:
    given = load_bytes(f"{HEAD}profiles: [{{pluginConfig: [{{name: Mine, timeBudget: 250ms}}]}}]".encode(), "f")
    text = dump(given.configuration)
    assert text.count("timeBudget: 250ms") == 1
    assert "onFailure" not in text
    assert load_bytes(text.encode(), "f").configuration == given.configuration
    assert "timeBudget" not in dump(load_bytes(HEAD.encode(), "f").configuration)
