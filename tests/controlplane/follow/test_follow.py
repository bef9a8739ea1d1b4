"""What `make follow` sees of a difference, in small pieces of Go and of configurations, and what a failed step does."""

import pytest

from kscheduler.api.releases import BEHAVIOURS
from tests.controlplane import binaries
from tests.controlplane.binaries import BuildError
from tests.controlplane.follow import ours, sources, upstream
from tests.controlplane.follow.__main__ import Following
from tests.controlplane.follow.comparison import Differences, Rows, compare, flat, without_changes
from tests.controlplane.releases import pinned

METRICS = """\
	A = metrics.NewCounterVec(
		&metrics.CounterOpts{
			Subsystem:      SchedulerSubsystem,
			Name:           "a_total",
			Help:           "Of } and {.",
		}, []string{"result", "profile"})
	B = metrics.NewHistogram(
		&metrics.HistogramOpts{
			Name:           "b_seconds",
			Buckets:        metrics.ExponentialBuckets(0.001, 2, 15),
		},
	)
"""
CODE = """\
import "a path" // of no message
// "a comment"
var reason = "node(s) had no room" /* "another
comment" */
var url = "http://host/path of it"
"""


def test_what_is_new_gone_and_changed() -> None:
    found = compare({"a": "1", "b": "2", "d": ""}, {"b": "3", "c": "4", "d": ""})
    assert found == Differences({"a": "1"}, {"c": "4"}, {"b": ("3", "2")})
    assert [*found.lines()] == ["- New: `a`: 1", "- Gone: `c`: 4", "- Changed: `b`: 3 → 2"]
    assert len(without_changes(found)) == 2
    assert [*compare({}, {}).lines()] == ["No difference."]


def test_leaves_are_found_by_the_names_of_their_items() -> None:
    tree = {"a": [{"name": "x", "b": 50.0}, {"name": "y"}], "c": {"d": []}, "e": [1]}
    leaves = {"a[x].name": "x", "a[x].b": "50", "a[y].name": "y", "a in order": "x, y", "c.d": "[]", "e[0]": "1"}
    assert flat(tree) == leaves


def test_declared_metrics_have_their_labels() -> None:
    assert sources.declared_metrics(METRICS) == {"a_total": "counter by profile, result", "b_seconds": "histogram"}


def test_comments_are_no_code_and_texts_are() -> None:
    code = sources.without_comments(CODE)
    assert "comment" not in code
    assert '"node(s) had no room"' in code
    assert '"http://host/path of it"' in code


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_our_own_lists_are_whole(version: str) -> None:
    assert ours.column_for(version) == version
    for listing in (ours.gates(version), ours.points(version), ours.metrics(version), ours.configuration(version)):
        assert len(listing) > 20
    assert ours.flags()


def test_a_version_without_a_column_is_compared_with_the_newest() -> None:
    assert ours.column_for("1.99") == [*BEHAVIOURS][-1]


def test_a_gate_is_described_by_all_that_matters() -> None:
    assert upstream.gate_text("", default=True, locked=True, needs=()) == "GA on locked"
    assert upstream.gate_text("ALPHA", default=False, locked=False, needs=("A", "B")) == "ALPHA off needs A B"


def test_a_step_that_fails_is_reported_and_keeps_no_other_from_being_taken() -> None:
    shown: list[str] = []
    following = Following(pinned.find(pinned.DEFAULT), "1.36", None, shown.append)

    def fail() -> None:
        raise RuntimeError("no Go here")

    following.take("Built", fail)
    following.take("Flags", lambda: compare({"a": ""}, {}))
    following.take("Files to read", lambda: Rows({"fit.go": "+3 -1"}))
    report = following.report()
    assert "| Built | 0 | failed |\n| Flags | 0 | 1 |" in report
    assert "**Failed**: RuntimeError: no Go here" in report
    assert "- New: `a`" in report
    assert "- `fit.go`: +3 -1" in report
    assert shown == ["Built: RuntimeError: no Go here", "Flags: 1", "Files to read: 1"]


def test_a_release_that_cannot_be_built_is_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BuildError("go build ended with 1")

    for module, name in ((binaries, "build"), (upstream, "listed"), (sources, "metrics")):
        monkeypatch.setattr(module, name, refuse)
    following = Following(pinned.find(pinned.DEFAULT), "1.36", None, lambda _: None)
    following.run()
    failed = [step.title for step in following.steps if step.problem]
    assert failed == [step.title for step in following.steps if step.title != "Pinned"]
