"""What the typed answers of all features share.

    Answer, ReadAnswer   what their structs are made of
    pending_in_queue     waiting pods, and why they wait
    scarce_resources     what few nodes have, the scarcest first
    suggestions          changes that would help, of a pod and of many
    schema               the JSON Schema that is published of all answers

JSON is msgspec's encoding of the structs, a key for each field in their order; schemas and a part of the OpenAPI page
are made from them (`python -m kscheduler.server.pages.published`), and text and HTML render them.
"""

from typing import Annotated

import msgspec


class Answer(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What all structs of an answer share: an unknown key is an error."""


class ReadAnswer(Answer, frozen=True, forbid_unknown_fields=False):
    """An answer that kubectl's plugin reads from a service of another version: what a later one adds is passed over,
    and a key that an earlier one does not have has a default. In schemas every key is there.
    """


class ResourceCapacity(ReadAnswer, frozen=True):
    """Of one resource on one or more nodes, in the scheduler's units (cpu in thousandths)."""

    allocatable: int
    requested: int


Names = tuple[str, ...]
EmulationVersion = Annotated[
    str,
    msgspec.Meta(
        description="The version of kube-scheduler by whose rules it was decided, `1.37`: as /statusz names it. A note "
        "says why, if it is not that of the API server."
    ),
]


def whose_rules(version: str, why: str = "") -> str:
    """The last line of a text. `why` it is this version begins with a colon, or a comma."""
    return f"by the rules of kube-scheduler {version}{why}"
