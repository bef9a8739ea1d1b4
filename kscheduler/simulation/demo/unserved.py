"""Pods that nobody will schedule are told as they come: who tries a policy forgets its schedulerName first of all."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from kscheduler.logs.clean import one_line
from kscheduler.simulation.kinds.resources import PODS
from kscheduler.simulation.objects.store import Change, ChangeType, ObjectStore

MOST_NAMES: Final = 100
"""Scheduler names that are told, once each."""


@contextmanager
def telling_unserved(store: ObjectStore, served: Collection[str], out: TextIO) -> Iterator[None]:
    """Write a line for each scheduler name that a pending pod asks for and that is not served; without any, nothing."""
    told: set[str] = set()

    def look_at(change: Change) -> None:
        if change.type is not ChangeType.ADDED:
            return
        spec, metadata = change.record.value["spec"], change.record.value["metadata"]
        name = spec.get("schedulerName", "")
        if spec.get("nodeName") or name in served or name in told or len(told) >= MOST_NAMES:
            return
        told.add(name)
        pod = f"{metadata['namespace']}/{metadata['name']}"
        asked = one_line(f"pod {pod} waits for schedulerName {name}")
        out.write(f"{asked}, which nobody serves here: {', '.join(served)} are served\n")
        out.flush()

    if not served:
        yield
        return
    store.subscribe(PODS.collection, look_at)
    try:
        yield
    finally:
        store.unsubscribe(PODS.collection, look_at)
