"""How often something has changed: who keeps a result compares the number with the one it was worked out at."""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class ChangeCount:
    """A number that its owner raises with each change. An attribute, since a decision reads some of them."""

    number: int = 0
