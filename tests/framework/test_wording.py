"""Selectors, amounts and sets of pods, as `explain` says them."""

import pytest

from kscheduler.api.core import LabelSelector
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.reasons.wording import bytes_text, match_text


def selector(**labels: str) -> Selector:
    """Pods or namespaces with these labels."""
    return parse_label_selector(LabelSelector(match_labels=labels))


WEB = (selector(app="web"),)


@pytest.mark.parametrize(
    ("match", "text"),
    [
        pytest.param(
            PodMatch(frozenset({"own"}), selectors=WEB), "app=web", id="its own namespace goes without saying"
        ),
        pytest.param(PodMatch(frozenset({"own"})), "any labels", id="no selector"),
        pytest.param(PodMatch(frozenset({"b", "a"}), selectors=WEB), "app=web in a, b", id="others"),
        pytest.param(PodMatch(frozenset({"b", "own"}), selectors=WEB), "app=web in own, b", id="its own beside others"),
        pytest.param(PodMatch(frozenset(), Selector(), WEB), "app=web in any namespace", id="everywhere"),
        pytest.param(
            PodMatch(frozenset({"own"}), selector(team="x"), WEB),
            "app=web in own, namespaces with team=x",
            id="its own beside chosen ones",
        ),
        pytest.param(
            PodMatch(frozenset({"a"}), selector(team="x"), WEB),
            "app=web in a, namespaces with team=x",
            id="another beside chosen ones",
        ),
    ],
)
def test_a_set_of_pods_names_namespaces_where_they_are_not_the_pods_own(match: PodMatch, text: str) -> None:
    assert match_text(match, "own") == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (-2048, "-2Ki"),
        (1536, "1.5Ki"),
        (1000 * 1024, "1000Ki"),
        (2**20 + 1, "~1Mi"),
        (5 * 2**30, "5Gi"),
    ],
)
def test_bytes_are_said_in_few_digits_and_marked_where_those_are_not_exact(amount: int, text: str) -> None:
    assert bytes_text(amount) == text
