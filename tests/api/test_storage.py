"""Which StorageClass is the default one."""

import pytest

from kscheduler.api.meta import ObjectMeta
from kscheduler.api.storage import StorageClass, default_class

MARK = {"storageclass.kubernetes.io/is-default-class": "true"}
BETA = {"storageclass.beta.kubernetes.io/is-default-class": "true"}


def named(name: str, created: str | None, annotations: dict[str, str] = MARK) -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name=name, creation_timestamp=created, annotations=annotations))


OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        pytest.param((), None, id="none"),
        pytest.param((named("a", NEW, {}), named("b", OLD)), "b", id="marked"),
        pytest.param((named("a", NEW, {next(iter(MARK)): "false"}),), None, id="marked as not"),
        pytest.param((named("a", OLD), named("b", NEW)), "b", id="newest"),
        pytest.param((named("b", NEW), named("a", NEW), named("c", NEW)), "a", id="first by name at a tie"),
        pytest.param((named("b", OLD), named("a", NEW, BETA)), "a", id="beta annotation"),
        pytest.param((named("b", None), named("a", None)), "a", id="from files, without times"),
    ],
)
def test_the_newest_default_class_counts_and_then_the_first_by_name(
    classes: tuple[StorageClass, ...], name: str | None
) -> None:
    chosen = default_class(classes)
    assert (chosen.metadata.name if chosen is not None else None) == name
    again = default_class(reversed(classes))
    assert again is chosen
