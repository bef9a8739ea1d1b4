"""How an allocation ends without a result."""


class AllocationError(Exception):
    """The claims, their classes or devices are wrong: an error for the pod, whichever node was looked at."""


class FailedOnThisNodeError(Exception):
    """The pools that a node reaches are wrong, and without them the claims cannot be allocated there."""
