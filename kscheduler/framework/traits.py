"""A plugin's traits: everything that follows from its class alone, computed once, when a profile is built.

The problem: whether a plugin keeps counts of pods, or may be called once for a thousand pods, decides how it is called.
Inspecting the object each time is slow and spreads the rules over many places. The idea: a frozen value per plugin,
which the profile keeps beside it (`Profile.traits`); no other module inspects a plugin's class.

A declaration in a class (`reads_pods = False`, its `sign`) holds for the methods of that class. A subclass that
overrides such a method may read more than the declaration says, so the override cancels the declaration.
"""

from functools import lru_cache
from inspect import iscoroutinefunction, unwrap
from typing import Any, Final

import msgspec

from kscheduler.framework.plugin import Point, Source

# The methods that filter and score.
_ANSWERING: Final = ("pre_filter", "filter", "pre_score", "score", "normalize")
# The methods that decide, with the hints, where a pod waits.
_JUDGING: Final = ("pre_enqueue", "pre_filter", "filter", "post_filter", "events_to_register")
_REJECTING: Final = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
_RESERVING: Final = ("reserve", "unreserve", "pre_bind_pre_flight", "pre_bind")
_KEEPABLE: Final = frozenset((Source.AMOUNTS, Source.ROW, Source.IMAGES))
_AMOUNTS: Final = frozenset((Source.AMOUNTS,))


class PluginTraits(msgspec.Struct, frozen=True):
    """The traits of a plugin."""

    points: frozenset[Point]
    """The extension points that it implements."""
    is_in_tree: bool
    """Whether its code is part of kscheduler: then our benchmarks measure its cost, and its calls are not timed."""
    depends_on: frozenset[Source]
    is_signed: bool
    """Whether its verdict and its hints depend only on its signature and on known sources: then pods with equal
    signatures wait as one element."""
    is_keepable: bool
    """Whether its results about a row can be kept in a column: they depend on the pod's signature and, of the cluster,
    only on the row and the images."""
    reads_pods: bool
    """Whether its results about a row may change with the pods there."""
    reads_spec_only: bool
    """Whether its signature depends on the pod's spec only."""
    hints_by_spec: bool
    """Whether its hints read of a waiting pod what it signs and its UID, but neither labels nor namespace. In-tree
    plugins declare it."""
    judges_without_labels: bool
    """Whether its verdict, PreEnqueue to PostFilter, reads none of a pod's labels besides what it signs. In-tree
    plugins declare it."""
    tells_labels_read: bool
    """Whether it tells which labels of a pod its verdict reads besides what it signs, as things stand (`labels_read`).
    In-tree plugins have it."""
    needs_volumes: bool
    """Whether it skips each pod without volumes."""
    idle_without: frozenset[type]
    """Types of values in the cycle state: without any of them its Reserve and PreBind have nothing to do, and are not
    called. Empty: they always are. In-tree plugins declare it."""
    is_live_unsigned: bool
    """Whether it alone is called for the pods that it does not sign, while the other plugins answer by the pod's class.
    In-tree plugins declare it."""
    lets_in_plain_pods: bool
    """Whether its PreEnqueue lets in every pod without scheduling gates and resource claims: it is not called for them.
    In-tree plugins declare it."""
    tells_if_it_keeps_any_out: bool
    """Whether it says (`keeps_any_out`) if its PreEnqueue may keep any pod out at present: else it is not called.
    In-tree plugins have it."""
    says_if_it_gives_points: bool
    """Whether it says (`gives_points`), once the nodes are filtered, if they may get other points than 0, normalised
    too: else it is not called for them. In-tree plugins declare it."""
    says_if_defaults_reject: bool
    """Whether it says (`rejects_by_defaults`) if spread constraints that only the profile has may reject nodes for a
    pod. In-tree plugins have it."""
    judges_by_bucket: bool
    """Whether it may judge rows with equal domains and counts as one (`by_bucket`). In-tree plugins have it."""
    normalizes: bool
    """Whether its points are not within 0..100 before `normalize`."""
    normalizes_points_only: bool
    """Whether equal raw points give equal normalised points for any pod and rows."""
    counts_pods: bool
    """Whether its PreFilter state counts pods (`PreFilterExtensions`)."""
    counts_pods_by_row: bool
    """Whether that state can count pods per row (`RowWiseExtensions`)."""
    rejects: bool
    """Whether it can reject a pod before it is bound."""
    registers_events: bool
    """Whether it registers the events that may change a rejection; if not, every event may."""
    is_standing_gate: bool
    """Whether its PreEnqueue knows which pods it would reject again (`StandingGate`)."""
    is_object_gate: bool
    """Whether its PreEnqueue knows for which object each pod waits (`ObjectGate`)."""
    gives_details: bool
    """Whether it can explain the rejected rows in detail (`DetailsPlugin`)."""
    is_refreshed: bool
    """Whether it has data of its own to fetch (`RefreshPlugin`)."""
    is_closable: bool
    """Whether it has something to give back at its end (`ClosablePlugin`)."""
    judges_groups: bool
    """Whether it says how far a pod group must come (`placement_feasible`)."""
    makes_room_for_groups: bool
    """Whether it looks for room for a pod group that was rejected (`pod_group_post_filter`)."""
    generates_placements: bool
    """Whether it says where a pod group may be placed (`generate_placements`)."""
    scores_placements: bool
    """Whether it says which placement of a pod group is best (`score_placements`)."""
    awaits_permit: bool
    """Whether its `permit` is a coroutine, which the pod waits for."""
    awaits_post_bind: bool
    """Whether its `post_bind` is a coroutine, for which nobody waits."""

    @property
    def is_matter_of_row(self) -> bool:
        """Whether its results can be kept, and depend on the row only."""
        return self.is_keepable and Source.IMAGES not in self.depends_on

    @property
    def reads_amounts_only(self) -> bool:
        """Whether rows with equal amounts get equal results."""
        return self.depends_on == _AMOUNTS

    @property
    def reads_images(self) -> bool:
        """Whether its results change with which nodes have which images."""
        return Source.IMAGES in self.depends_on


# By class: none of these sets a method or a declaration on an object, and a profile asks for the traits of each.
_in_tree: dict[type, PluginTraits] = {}


def traits_of(plugin: Any) -> PluginTraits:
    """The plugin's traits; for a class that does not derive from `Plugin`, as far as its methods show them."""
    if not is_in_tree(plugin):
        return _looked_up(plugin)
    kind = type(plugin)
    traits = _in_tree.get(kind)
    if traits is None:
        traits = _in_tree[kind] = _looked_up(plugin)
    return traits


def _looked_up(plugin: Any) -> PluginTraits:
    sources = frozenset(getattr(plugin, "depends_on", (Source.ANYTHING,)))
    signs = _has(plugin, "sign")
    # a `sign` that was set on the object itself is about that object: no subclass can override below it
    sign_is_overridden = _has(type(plugin), "sign") and _differs_below(plugin, "sign", _JUDGING)
    return PluginTraits(
        points=points_of(plugin),
        is_in_tree=is_in_tree(plugin),
        depends_on=sources,
        is_signed=signs and Source.ANYTHING not in sources and not sign_is_overridden,
        is_keepable=signs and _KEEPABLE.issuperset(sources) and not _differs_below(plugin, "sign", _ANSWERING),
        reads_pods=_states(plugin, "reads_pods", otherwise=True) or _differs_below(plugin, "reads_pods", _ANSWERING),
        reads_spec_only=_stands(plugin, "reads_spec_only", ("sign",)),
        hints_by_spec=_stands(plugin, "hints_by_spec", ("sign", "events_to_register")),
        judges_without_labels=_stands(plugin, "judges_without_labels", _JUDGING),
        tells_labels_read=_has(plugin, "labels_read")
        and is_in_tree(plugin)
        and not _differs_below(plugin, "labels_read", _JUDGING),
        needs_volumes=_stands(plugin, "needs_volumes", _ANSWERING),
        idle_without=_idle_without(plugin),
        is_live_unsigned=_stands(plugin, "is_live_unsigned", ("sign",)),
        lets_in_plain_pods=_stands(plugin, "lets_in_plain_pods", ("pre_enqueue",)),
        tells_if_it_keeps_any_out=_has(plugin, "keeps_any_out")
        and is_in_tree(plugin)
        and not _differs_below(plugin, "keeps_any_out", ("pre_enqueue",)),
        says_if_it_gives_points=_has(plugin, "gives_points")
        and is_in_tree(plugin)
        and not _differs_below(plugin, "gives_points", ("score", "normalize")),
        says_if_defaults_reject=_has(plugin, "rejects_by_defaults") and is_in_tree(plugin),
        judges_by_bucket=_has(plugin, "by_bucket")
        and is_in_tree(plugin)
        and not _differs_below(plugin, "by_bucket", _ANSWERING),
        normalizes=_has(plugin, "normalize"),
        normalizes_points_only=_stands(plugin, "normalizes_points_only", ("normalize",)),
        counts_pods=_has(plugin, "add_pod"),
        counts_pods_by_row=_has(plugin, "add_pod") and _has(plugin, "move_pods"),
        rejects=any(_has(plugin, method) for method in _REJECTING),
        registers_events=_has(plugin, "events_to_register"),
        is_standing_gate=_has(plugin, "may_let_in") and not _differs_below(plugin, "may_let_in", ("pre_enqueue",)),
        is_object_gate=_has(plugin, "gating_objects")
        and _has(plugin, "changed_gating_objects")
        and not _differs_below(plugin, "gating_objects", ("pre_enqueue", "events_to_register")),
        gives_details=_has(plugin, "details"),
        is_refreshed=_has(plugin, "refresh"),
        is_closable=_has(plugin, "close"),
        judges_groups=_has(plugin, "placement_feasible"),
        makes_room_for_groups=_has(plugin, "pod_group_post_filter"),
        generates_placements=_has(plugin, "generate_placements"),
        scores_placements=_has(plugin, "score_placements"),
        awaits_permit=_is_awaited(plugin, "permit"),
        awaits_post_bind=_is_awaited(plugin, "post_bind"),
    )


def points_of(plugin: Any) -> frozenset[Point]:
    """The extension points that the plugin implements."""
    return frozenset(point for point in Point if _has(plugin, point.method))


def is_in_tree(plugin: object) -> bool:
    """Whether its code is part of kscheduler."""
    return type(plugin).__module__.startswith("kscheduler.plugins.")


def _has(plugin: Any, method: str) -> bool:
    return callable(getattr(plugin, method, None))


def _is_awaited(plugin: Any, method: str) -> bool:
    return _has(plugin, method) and iscoroutinefunction(unwrap(getattr(plugin, method)))


def _states(plugin: Any, fact: str, *, otherwise: bool = False) -> bool:
    return bool(getattr(plugin, fact, otherwise))


def _stands(plugin: Any, fact: str, methods: tuple[str, ...]) -> bool:
    """Whether the plugin declares the fact, and no subclass below the declaration overrides one of these methods."""
    return _states(plugin, fact) and not _differs_below(plugin, fact, methods)


def _idle_without(plugin: Any) -> frozenset[type]:
    """What the plugin declares, unless a subclass below the declaration reserves or prepares otherwise."""
    declared = getattr(plugin, "idle_without", ())
    return frozenset() if _differs_below(plugin, "idle_without", _RESERVING) else frozenset(declared)


def _differs_below(plugin: Any, stated: str, methods: tuple[str, ...]) -> bool:
    return _is_made_otherwise(type(plugin), stated, methods)  # type: ignore[arg-type]  # mypy: a class is hashable


@lru_cache(maxsize=1024)
def _is_made_otherwise(kind: type, stated: str, methods: tuple[str, ...]) -> bool:
    """Whether a class that comes, in the MRO, before the one with the declaration has one of the methods."""
    kinds = kind.__mro__
    place = next((place for place, parent in enumerate(kinds) if stated in vars(parent)), len(kinds))
    return any(method in vars(subclass) for subclass in kinds[:place] for method in methods)
