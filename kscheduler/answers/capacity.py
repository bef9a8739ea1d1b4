"""How much there is of a resource, as answers have it."""

from kscheduler.answers import ReadAnswer


class ResourceCapacity(ReadAnswer, frozen=True):
    """Of one resource on one or more nodes, in the scheduler's units (cpu in thousandths)."""

    allocatable: int
    requested: int
