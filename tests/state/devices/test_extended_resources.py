"""Which class stands for an extended resource: newest first, then by name, and what becomes of a name without owner."""

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.device_selectors import Release
from kscheduler.api.devices import DeviceClass
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.state.cache import Cache
from kscheduler.state.devices.device_table import ExtendedResourceClasses

OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
IMPLICIT = "deviceclass.resource.kubernetes.io/"


def made(name: str, resource: str | None = "example.com/gpu", created: str = OLD) -> DeviceClass:
    spec = {"extendedResourceName": resource}
    return convert({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}, DeviceClass)


def winner(classes: ExtendedResourceClasses, resource: str = "example.com/gpu") -> str:
    found = classes.class_of(resource)
    return found.metadata.name if found is not None else ""


def filled(*known: DeviceClass, promotes: bool = False) -> ExtendedResourceClasses:
    classes = ExtendedResourceClasses()
    classes.let_promote((), promotes=promotes)
    for each in known:
        classes.put(None, each)
    return classes


def test_a_class_stands_for_the_resource_that_it_names_and_for_its_own_name() -> None:
    classes = filled(made("gpu"))
    assert winner(classes) == "gpu"
    assert winner(classes, f"{IMPLICIT}gpu") == "gpu"
    assert not winner(classes, "example.com/other")


def test_a_class_that_names_none_has_its_own_name_all_the_same() -> None:
    assert winner(filled(made("gpu", None)), f"{IMPLICIT}gpu") == "gpu"


def test_the_newest_class_wins_and_of_equally_old_ones_the_first_by_name() -> None:
    for promotes in (False, True):
        for known in ((made("a"), made("b", created=NEW)), (made("b", created=NEW), made("a"))):
            assert winner(filled(*known, promotes=promotes)) == "b"
        for known in ((made("a"), made("b")), (made("b"), made("a"))):
            assert winner(filled(*known, promotes=promotes)) == "a"


def test_a_class_that_loses_has_not_even_its_own_name() -> None:
    assert not winner(filled(made("b", created=NEW), made("a")), f"{IMPLICIT}a")


def test_a_name_that_its_winner_gives_up_waits_for_an_event_of_another_class() -> None:
    older, newer = made("a"), made("b", created=NEW)
    classes = filled(older, newer)
    classes.remove(newer)
    assert not winner(classes)
    assert not winner(classes, f"{IMPLICIT}b")
    classes.put(older, older)
    assert winner(classes) == "a"


def test_a_class_that_names_another_resource_leaves_the_first() -> None:
    before, now = made("a"), made("a", "example.com/other")
    classes = filled(before)
    classes.put(before, now)
    assert (winner(classes), winner(classes, "example.com/other")) == ("", "a")


def test_the_winner_is_the_newest_version_of_its_class() -> None:
    before = made("a")
    classes = filled(before)
    now = made("a")
    revision = classes.revision
    classes.put(before, now)
    assert classes.class_of("example.com/gpu") is now
    assert classes.revision == revision, "the same classes stand for the same resources"


# --- 1.38: DR8 --------------------------------------------------------------------------------------------------------


def test_a_class_that_loses_has_its_own_name() -> None:
    assert winner(filled(made("b", created=NEW), made("a"), promotes=True), f"{IMPLICIT}a") == "a"


def test_a_name_that_its_winner_gives_up_goes_to_the_best_of_the_others() -> None:
    classes = filled(made("c"), made("a"), made("b", created=NEW), promotes=True)
    classes.remove(made("b", created=NEW))
    assert (winner(classes), winner(classes, f"{IMPLICIT}b")) == ("a", "")
    classes.put(made("a"), made("a", "example.com/other"))
    assert (winner(classes), winner(classes, "example.com/other")) == ("c", "a")
    classes.put(made("c"), made("c", None))
    assert (winner(classes), winner(classes, f"{IMPLICIT}c")) == ("", "c")


def test_a_class_that_loses_may_go() -> None:
    classes = filled(made("a"), made("b", created=NEW), promotes=True)
    classes.remove(made("a"))
    assert (winner(classes), winner(classes, f"{IMPLICIT}a")) == ("b", "")


def test_the_winner_is_the_newest_version_of_its_class_where_others_are_promoted() -> None:
    before, now = made("a"), made("a")
    classes = filled(before, made("b"), promotes=True)
    revision = classes.revision
    classes.put(before, now)
    assert classes.class_of("example.com/gpu") is now
    assert classes.revision == revision


def test_a_table_follows_the_version() -> None:
    cache = Cache(BEHAVIOURS["1.37"])
    table = cache.devices
    for each in (made("a"), made("b", created=NEW)):
        table.put_class(each)
    table.remove_class("b")
    assert table.classes_of_resources() == {f"{IMPLICIT}a": "a"}
    changes = table.class_changes
    cache.follow(BEHAVIOURS["1.37"])
    assert table.class_changes == changes
    cache.follow(BEHAVIOURS["1.38"])
    assert table.classes_of_resources() == {"example.com/gpu": "a", f"{IMPLICIT}a": "a"}
    assert table.class_changes == changes + 1, "what was searched before is out of date"
    table.put_class(made("b", created=NEW))
    cache.follow(BEHAVIOURS["1.37"])
    table.remove_class("b")
    assert table.classes_of_resources() == {f"{IMPLICIT}a": "a"}


@pytest.mark.parametrize("versions", [("1.38", "1.37"), ("1.37", "1.38")])
def test_a_table_that_goes_back_is_as_one_that_has_always_followed_the_version(versions: tuple[Release, ...]) -> None:
    away, home = versions
    known = (made("new", created=NEW), made("old"), made("other", "example.com/other"))
    fresh, moved = Cache(BEHAVIOURS[home]), Cache(BEHAVIOURS[home])
    for cache in (fresh, moved):
        for each in known:
            cache.devices.put_class(each)
    changes = moved.devices.class_changes
    moved.follow(BEHAVIOURS[away])
    assert moved.devices.classes_of_resources() != fresh.devices.classes_of_resources()
    moved.follow(BEHAVIOURS[home])
    assert moved.devices.classes_of_resources() == fresh.devices.classes_of_resources()
    assert moved.devices.class_changes == changes + 2, "what was searched before is out of date"
    for cache in (fresh, moved):
        cache.devices.remove_class("new")
    assert moved.devices.classes_of_resources() == fresh.devices.classes_of_resources()
