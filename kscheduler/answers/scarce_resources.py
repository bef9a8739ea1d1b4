"""What few nodes have: extended resources, and devices by class or driver, in the order in which people see them.

`kubectl kscheduler top` reads them from metrics, the status page from columns; which come first is one rule.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

# That are shown beside CPU and memory.
MAX_SCARCE: Final = 3


class ScarceResource(msgspec.Struct, frozen=True):
    """An extended resource, or the devices of a class or driver."""

    name: str
    requested: int
    there: int
    device_class: str = ""
    """Of devices that are counted by class."""

    @property
    def words(self) -> str:
        """For people."""
        return f"class {self.device_class}" if self.device_class else self.name


def scarcest(found: Iterable[ScarceResource], most: int = MAX_SCARCE) -> tuple[ScarceResource, ...]:
    """The few of which the largest share is requested, and of those with equal shares there are fewest.

    Not those of which there is most: a thousand places for a device plugin's helpers on each node say nothing.
    """
    return tuple(sorted(found, key=lambda each: (-each.requested / max(each.there, 1), each.there, each.words))[:most])
