"""FitError: byte for byte what kube-scheduler writes into conditions and Events."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.reasons.diagnosis import LONGEST_REASONS, Diagnosis, FitError, Rejection
from kscheduler.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable


def rejection(plugin: str, *codes: int, first_row: int = 0, texts: dict[int, tuple[str, ...]]) -> Rejection:
    """Rows from `first_row` on that a plugin rejected, and what its codes mean."""
    rows = np.arange(first_row, first_row + len(codes), dtype=np.intp)
    return Rejection(plugin, rows, np.array(codes, dtype=np.int64), lambda code: unschedulable(*texts[code]))


def test_counts_are_sorted_as_strings() -> None:
    """`10 ...` comes before `2 ...` (Q28)."""
    diagnosis = Diagnosis(
        names=tuple(f"n{row}" for row in range(13)),
        rejections=[
            rejection("A", 1, 1, texts={1: ("zebra",)}),
            rejection("B", *[1] * 10, first_row=2, texts={1: ("yak",)}),
            rejection("C", 1, first_row=12, texts={1: ("ant",)}),
        ],
    )
    assert FitError(13, diagnosis).message == "0/13 nodes are available: 1 ant, 10 yak, 2 zebra."


def test_every_reason_of_a_node_is_counted_and_equal_reasons_of_plugins_add_up() -> None:
    texts = {1: ("Insufficient cpu",), 2: ("Insufficient memory",), 3: ("Insufficient cpu", "Insufficient memory")}
    diagnosis = Diagnosis(
        names=("a", "b", "c", "d"),
        rejections=[
            rejection("Fit", 3, 1, 3, texts=texts),
            rejection("Other", 1, first_row=3, texts={1: ("Insufficient cpu",)}),
        ],
    )
    assert FitError(4, diagnosis).message == "0/4 nodes are available: 2 Insufficient memory, 4 Insufficient cpu."


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (unresolvable("pod affinity terms conflict"), "0/3 nodes are available: pod affinity terms conflict."),
        (unresolvable("one", "two"), "0/3 nodes are available: one, two."),
        (unresolvable(), "0/3 nodes are available:"),
    ],
)
def test_a_rejection_by_pre_filter_speaks_for_all_nodes(status: Status, text: str) -> None:
    assert FitError(3, Diagnosis(pre_filter=status)).message == text


def test_post_filter_has_the_last_word_and_no_dot_of_its_own() -> None:
    diagnosis = Diagnosis(names=("a",), rejections=[rejection("A", 1, texts={1: ("no room",)})])
    message = FitError(1, diagnosis, "preemption: not helpful.").message
    assert message == "0/1 nodes are available: 1 no room. preemption: not helpful."
    assert FitError(0, Diagnosis(), "tail").message == "0/0 nodes are available: tail"


def test_the_rejecting_plugins_include_those_that_narrowed_the_search() -> None:
    """An event of the plugin that narrowed the search may help; nodes outside are attributed to no plugin."""
    diagnosis = Diagnosis(
        names=("a", "b"),
        rejections=[rejection("", 1, texts={1: ("outside",)}), rejection("Fit", 1, first_row=1, texts={1: ("full",)})],
        narrowed_by=frozenset({"NodeAffinity"}),
    )
    assert diagnosis.plugins == {"Fit", "NodeAffinity"}
    assert Diagnosis(pre_filter=unresolvable("no", plugin="A")).plugins == {"A"}
    assert Diagnosis().plugins == frozenset()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_by_node_and_counted_report_the_same_story(codes: list[int]) -> None:
    rejected = rejection("P", *codes, texts={code: (f"reason {code}",) for code in range(1, 6)})
    diagnosis = Diagnosis(names=tuple(f"n{row}" for row in range(len(codes))), rejections=[rejected])
    statuses = dict(diagnosis.by_node())
    assert {name: status.message for name, status in statuses.items()} == {
        f"n{row}": f"reason {code}" for row, code in enumerate(codes)
    }
    assert sorted((status.message, count) for status, count in rejected.counted()) == sorted(
        (f"reason {code}", codes.count(code)) for code in set(codes)
    )


def test_reasons_that_do_not_fit_are_counted() -> None:
    """Twenty thousand resources are lacking, and the message is written at each attempt."""
    reasons = tuple(f"Insufficient example.com/resource-{number:05}" for number in range(20_000))
    diagnosis = Diagnosis(names=("a",), rejections=[rejection("P", 1, texts={1: reasons})])
    message = FitError(1, diagnosis).message
    assert message.startswith("0/1 nodes are available: 1 Insufficient example.com/resource-00000, 1 Insufficient ")
    shown = message.count("Insufficient")
    assert message.endswith(f", and {20_000 - shown} other reasons.")
    assert LONGEST_REASONS - 100 < len(message) < LONGEST_REASONS + 100


def test_codes_of_status() -> None:
    """Numbers and names are kube-scheduler's; only judgements count as rejections."""
    assert [(int(code), code.label) for code in Code] == [
        (0, "Success"),
        (1, "Error"),
        (2, "Unschedulable"),
        (3, "UnschedulableAndUnresolvable"),
        (4, "Wait"),
        (5, "Skip"),
        (6, "Pending"),
    ]
    assert [code for code in Code if code.is_rejected] == [
        Code.UNSCHEDULABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.PENDING,
    ]
    assert SUCCESS.is_success
    assert not error("x").is_rejected
    assert unschedulable("a", "b").by("P") == Status(Code.UNSCHEDULABLE, ("a", "b"), "P")
