"""What a plugin is: everything that is told from its class alone, worked out once, when a profile is built.

The problem: whether a plugin keeps counts of pods, or may be asked once for a thousand pods, decides how it is called.
To look at the object each time is slow, and each place that does so has to know what counts. The idea: one frozen value
per plugin, which the profile holds beside it (`Profile.traits`), and nobody else looks at a plugin's class.

A statement of a class (`reads_pods = False`, its `sign`) is about that class. One made of it that judges otherwise may
read more than the statement says: a method of its own, further down than the statement, takes the statement back.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kscheduler.framework.plugin import Point, Source

_ANSWERING: Final = ("pre_filter", "filter", "pre_score", "score", "normalize")
"""The methods by which a plugin judges and scores."""
_JUDGING: Final = ("pre_enqueue", "pre_filter", "filter", "post_filter", "events_to_register")
"""Those that decide, with its hints, where a pod waits."""
_REJECTING: Final = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
_KEEPABLE: Final = frozenset((Source.AMOUNTS, Source.ROW, Source.IMAGES))
_AMOUNTS: Final = frozenset((Source.AMOUNTS,))


@dataclass(frozen=True, slots=True)
class PluginTraits:
    """What one plugin is."""

    points: frozenset[Point]
    """The extension points that it implements."""
    is_in_tree: bool
    """Whether its code is part of kscheduler: what it costs is measured by our benchmarks, not at each call."""
    depends_on: frozenset[Source]
    is_signed: bool
    """Whether its verdict and its hints are a matter of what it signs, and of sources that are known: then pods that it
    signs alike wait as one."""
    is_keepable: bool
    """Whether its answers about a row can be kept in a column: it signs what they read of the pod, and of the cluster
    they read nothing but the row and the images."""
    reads_pods: bool
    """Whether its answers about a row may change with the pods there."""
    reads_spec_only: bool
    """Whether it signs nothing but the pod's spec."""
    needs_volumes: bool
    """Whether it skips each pod without volumes."""
    normalizes: bool
    """Whether its points are not within 0..100 before `normalize`."""
    normalizes_points_only: bool
    """Whether equal raw points become the same, whatever the pod and the rows."""
    counts_pods: bool
    """Whether its PreFilter state tells of pods (`PreFilterExtensions`)."""
    counts_pods_by_row: bool
    """Whether that state can tell rows apart (`RowWiseExtensions`)."""
    rejects: bool
    """Whether it can turn a pod down before it is bound."""
    registers_events: bool
    """Whether it says which events may change that; if not, all may."""
    is_standing_gate: bool
    """Whether its PreEnqueue knows whom it would turn away again (`StandingGate`)."""
    gives_details: bool
    """Whether it can say more about the rows that it turns down (`DetailsPlugin`)."""

    @property
    def is_matter_of_row(self) -> bool:
        """Whether its answers can be kept, and depend on nothing but the row."""
        return self.is_keepable and Source.IMAGES not in self.depends_on

    @property
    def reads_amounts_only(self) -> bool:
        """Whether rows with equal amounts get equal answers."""
        return self.depends_on == _AMOUNTS

    @property
    def reads_images(self) -> bool:
        """Whether its answers change with which nodes have which images."""
        return Source.IMAGES in self.depends_on


def traits_of(plugin: Any) -> PluginTraits:
    """What the plugin is; of one that is not made of `Plugin`, what its methods tell."""
    sources = frozenset(getattr(plugin, "depends_on", (Source.ANYTHING,)))
    signs = _has(plugin, "sign")
    # a `sign` that was set on the object itself is about that object: nothing is below it
    has_outgrown_it = _has(type(plugin), "sign") and _differs_below(plugin, "sign", _JUDGING)
    return PluginTraits(
        points=points_of(plugin),
        is_in_tree=is_in_tree(plugin),
        depends_on=sources,
        is_signed=signs and Source.ANYTHING not in sources and not has_outgrown_it,
        is_keepable=signs and _KEEPABLE.issuperset(sources) and not _differs_below(plugin, "sign", _ANSWERING),
        reads_pods=_states(plugin, "reads_pods", otherwise=True) or _differs_below(plugin, "reads_pods", _ANSWERING),
        reads_spec_only=_stands(plugin, "reads_spec_only", ("sign",)),
        needs_volumes=_stands(plugin, "needs_volumes", _ANSWERING),
        normalizes=_has(plugin, "normalize"),
        normalizes_points_only=_stands(plugin, "normalizes_points_only", ("normalize",)),
        counts_pods=_has(plugin, "add_pod"),
        counts_pods_by_row=_has(plugin, "add_pod") and _has(plugin, "move_pods"),
        rejects=any(_has(plugin, method) for method in _REJECTING),
        registers_events=_has(plugin, "events_to_register"),
        is_standing_gate=_has(plugin, "may_let_in") and not _differs_below(plugin, "may_let_in", ("pre_enqueue",)),
        gives_details=_has(plugin, "details"),
    )


def points_of(plugin: Any) -> frozenset[Point]:
    """The extension points that the plugin implements."""
    return frozenset(point for point in Point if _has(plugin, point.method))


def is_in_tree(plugin: object) -> bool:
    """Whether its code is part of kscheduler."""
    return type(plugin).__module__.startswith("kscheduler.plugins.")


def _has(plugin: Any, method: str) -> bool:
    return callable(getattr(plugin, method, None))


def _states(plugin: Any, fact: str, *, otherwise: bool = False) -> bool:
    return bool(getattr(plugin, fact, otherwise))


def _stands(plugin: Any, fact: str, methods: tuple[str, ...]) -> bool:
    """Whether the plugin states the fact, and no class below the statement has one of these methods of its own."""
    return _states(plugin, fact) and not _differs_below(plugin, fact, methods)


def _differs_below(plugin: Any, stated: str, methods: tuple[str, ...]) -> bool:
    return _is_made_otherwise(type(plugin), stated, methods)  # type: ignore[arg-type]  # mypy: a class is hashable


@lru_cache(maxsize=1024)
def _is_made_otherwise(kind: type, stated: str, methods: tuple[str, ...]) -> bool:
    """Whether a class that comes before the one with the statement has one of the methods."""
    kinds = kind.__mro__
    place = next((place for place, one in enumerate(kinds) if stated in vars(one)), len(kinds))
    return any(method in vars(one) for one in kinds[:place] for method in methods)
