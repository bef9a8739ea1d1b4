"""How a never-stuck run may begin, and what may come later: strategies over the words of its theme."""

from typing import Any

from hypothesis import strategies as st

from tests.scheduling.never_stuck import words
from tests.scheduling.never_stuck.words import Theme

# Name, namespace, app, traits and node of a pod.
RecordedConfiguration = tuple[str, str, str, list[str], str]


def node_traits(theme: Theme) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(theme.node_traits), max_size=1)


def _pods(theme: Theme, names: list[str], nodes: list[str]) -> st.SearchStrategy[RecordedConfiguration]:
    traits = st.lists(st.sampled_from(theme.pod_traits), min_size=1, max_size=2, unique=True)
    apps = st.sampled_from(theme.apps)
    return st.tuples(st.sampled_from(names), st.sampled_from(theme.namespaces), apps, traits, st.sampled_from(nodes))


def _name(described: RecordedConfiguration) -> str:
    return described[0]


def waiting(theme: Theme) -> st.SearchStrategy[RecordedConfiguration]:
    return _pods(theme, words.POD_NAMES, [""])


def running(theme: Theme) -> st.SearchStrategy[RecordedConfiguration]:
    return _pods(theme, words.OTHER_NAMES, words.NODE_NAMES[:2])


def beginnings(name: str) -> st.SearchStrategy[Any]:
    """Who is there at first: the theme, nodes with their traits, pods, storage."""
    theme = words.THEMES[name]
    return st.tuples(
        st.just(name),
        st.lists(node_traits(theme), min_size=1, max_size=3),
        st.lists(waiting(theme), min_size=3, max_size=4, unique_by=_name),
        st.lists(running(theme), min_size=2, max_size=4, unique_by=_name),
        _storage() if theme.has_storage else st.just(()),
    )


def _storage() -> st.SearchStrategy[tuple[tuple[str, str, str], ...]]:
    """Most of what there may be, so that a pod lacks one thing rather than many."""
    states = {one[:2]: [two for two in words.STORAGE_STATES if two[:2] == one[:2]] for one in words.STORAGE_STATES}
    each = st.tuples(*(st.sampled_from([*some, *some, None]) for some in states.values()))
    return each.map(lambda chosen: tuple(one for one in chosen if one is not None))
