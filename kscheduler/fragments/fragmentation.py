"""The answer: public, in the answers of several commands, and the same for text and JSON."""

from typing import Annotated, Final

from msgspec import Meta

from kscheduler.answers import ReadAnswer
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.framework.reasons.wording import share_texts
from kscheduler.text import printable

# In place of names that are counted together.
OTHERS: Final = "other"


class ResourceFragmentation(ReadAnswer, frozen=True, kw_only=True):
    """What is free of a resource, and how much of it no typical pod could use; in the scheduler's units."""

    resource: Annotated[
        str,
        Meta(
            description="Of devices that claims ask for: `deviceclass.resource.kubernetes.io/` and the name of their "
            "class."
        ),
    ]
    free: int
    cordoned: Annotated[int, Meta(description="Of what is free: on nodes that take no pods.")]
    lacking: Annotated[
        dict[str, int],
        Meta(
            description="Of the rest, what no typical pod that asks for the resource could use, by the resource that "
            "most of these pods lack there; `other`: they ask for what no node has."
        ),
    ]
    fragmented: Annotated[
        int,
        Meta(
            description="Of what is free, what a typical pod that asks for the resource cannot use, on average: the "
            "measure of the FGD paper. Pieces that only small pods can use count for as many pods as are larger."
        ),
    ] = 0
    allocatable: Annotated[int, Meta(description="Of all nodes, what is requested included.")] = 0
    driver: Annotated[str, Meta(description="Of devices of a class: who publishes them.")] = ""
    pool: Annotated[
        str, Meta(description="Of devices that several nodes reach; empty: each of them is of one node.")
    ] = ""

    @property
    def unusable(self) -> int:
        """Cordoned and lacking, added up."""
        return self.cordoned + sum(self.lacking.values())

    @property
    def device_class(self) -> str:
        """Of devices; empty for other resources."""
        return class_in(self.resource)

    @property
    def name_text(self) -> str:
        """The resource for people."""
        if not self.device_class:
            return printable(self.resource)
        pool = f", pool {self.pool}" if self.pool else ""
        return printable(f"devices of class {self.device_class} ({self.driver}{pool})")

    @property
    def share_text(self) -> tuple[str, str, str]:
        """`30`, `80` and `38 %`: how much of what is free is unusable."""
        unusable, free = share_texts(self.resource, self.unusable, self.free)
        return unusable, free, f"{100 * self.unusable / self.free:.0f} %" if self.free else "0 %"

    @property
    def why_text(self) -> str:
        """`30 for lack of cpu, 4 on cordoned nodes`; the largest parts first."""
        parts = sorted(self.lacking.items(), key=lambda part: (-part[1], part[0]))
        texts = [
            f"{self._amount(amount)} {'in pieces too small' if lacked == self.resource else _lack_text(lacked)}"
            for lacked, amount in parts
        ]
        if self.cordoned:
            texts.append(f"{self._amount(self.cordoned)} on cordoned nodes")
        return ", ".join(texts)

    def _amount(self, amount: int) -> str:
        """In the unit of all that is free."""
        return share_texts(self.resource, amount, self.free)[0]


def class_in(resource: str) -> str:
    """The class of devices that claims ask for under this name; empty for other resources."""
    is_class = resource.startswith(IMPLICIT_EXTENDED_RESOURCE)
    return resource.removeprefix(IMPLICIT_EXTENDED_RESOURCE) if is_class else ""


def _lack_text(lacked: str) -> str:
    if lacked == OTHERS:
        return "for pods that ask for what no node has"
    device_class = class_in(lacked)
    return printable(f"for lack of devices of class {device_class}" if device_class else f"for lack of {lacked}")
