"""Pods without a node that no profile here serves: nobody decides about them here, and perhaps nobody does at all."""

from collections import Counter
from typing import Final

import msgspec

from kscheduler.aio.tasks import Slicer
from kscheduler.server.status_page.sources import PageSources

MAX_NAMES: Final = 20
_SLICE_SECONDS: Final = 0.002


class NotServed(msgspec.Struct, frozen=True):
    """The pods of one scheduler name."""

    name: str
    count: int
    near: str
    """The served name that may be meant; empty: none is near."""


async def not_served(sources: PageSources) -> tuple[NotServed, ...]:
    """By scheduler name, that of most pods first. Looks at each pod, in slices: the queue does not know these."""
    profiles, slicer = sources.standing().profiles, Slicer(_SLICE_SECONDS)
    counts: Counter[str] = Counter()
    keys = sources.pods.keys()  # a copy: pods come and go between slices
    for key in keys:
        pod = sources.pods.get(key)
        if pod is not None and not (pod.spec.node_name or pod.is_terminal or pod.spec.scheduler_name in profiles):
            counts[pod.spec.scheduler_name] += 1
        if slicer.used_up():
            await slicer.turn()
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:MAX_NAMES]
    return tuple(NotServed(name, count, near_name(name, profiles)) for name, count in ordered)


def near_name(name: str, profiles: tuple[str, ...]) -> str:
    """The served name that a misspelt one may mean; empty if none is near."""
    from kscheduler.scenario.fields import nearest  # not at the start: few pods need it

    return nearest(name, profiles)
