"""What an API server does not have of the objects that decide about pod groups, and which of these cannot be read.

A group waits for them where the service would wait, and its members say for what. A file is taken to be the whole
cluster: absent is what cannot be read of it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kscheduler.scenario.scenario import ClusterObjects

NO_GROUPS: Final[Mapping[str, str]] = {}


class Absent(msgspec.Struct, frozen=True):
    """What is known of it."""

    groups: Mapping[str, str] = {}
    """How pod groups are missing, as `why_missing` takes it."""
    topologies: Mapping[str, str] = {}
    """By resource, why the objects that name levels of the topology are not known."""

    def beside(self, objects: ClusterObjects, groups: Mapping[str, str] = NO_GROUPS) -> "Absent":
        """With these objects: a kind of which somebody has given some is known. `groups`: more that are missing."""
        awaited = {name: why for name, why in self.topologies.items() if not getattr(objects, name.partition(".")[0])}
        return Absent({**self.groups, **groups}, awaited)


NOTHING_ABSENT: Final = Absent()
