"""What a pod group asks of the topology, read from what users already write: Kueue's annotations, Volcano's field.

    kueue.x-k8s.io/podset-required-topology: LABEL         all members in one domain of the label, or none of them
    kueue.x-k8s.io/podset-preferred-topology: LABEL        in one domain if possible, else in one of a wider level, else
                                                           in as few as possible; with both, up to the required level
    kueue.x-k8s.io/podset-unconstrained-topology: "true"   anywhere, in the domains with the least room
    kueue.x-k8s.io/podset-slice-required-topology: LABEL   each slice of members in one domain of the label
    kueue.x-k8s.io/podset-slice-size: N                    so many members are a slice
    kscheduler.io/topology-spare-nodes: N                  ours: so many nodes of each domain get no member
    spec.networkTopology of Volcano's PodGroup             {mode: hard | soft, highestTierAllowed, highestTierName}

The annotations stand on the group's object, or on its members; either way they take precedence over the field. A level
is named by its label, in Volcano by tier: tier 1 is the narrowest. What cannot be read is a `problem`, the end of a
sentence about the group; nothing here raises. So is an annotation that is nearly one of these: without it the group
would ask for less than its author wants.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

import msgspec

from kscheduler.api.selectors import is_label_key

REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
SPARE_NODES: Final = "kscheduler.io/topology-spare-nodes"
# All of them: a pod or a group without any asks for nothing.
ANNOTATIONS: Final = frozenset((REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_LEVEL, SLICE_SIZE, SPARE_NODES))
# Kueue has these, too, and nothing here has a use for them.
OF_KUEUE_ALONE: Final = frozenset(
    (
        "kueue.x-k8s.io/podset-group-name",
        "kueue.x-k8s.io/podset-slice-required-topology-constraints",
        "kueue.x-k8s.io/podset-topology-spreading",
    )
)
# Any of these is in the key of an annotation that asks for a topology, misspelt or not, also with capitals.
MARKS: Final = ("odset", "opology")
_KUEUES_PREFIX: Final = "kueue.x-k8s.io/podset-"
# How similar (0 to 1) a key must be to a known one to be taken for a misspelling; one with Kueue's prefix is likely.
_NEAR, _NEAR_OF_KUEUE = 0.93, 0.85
# As long as a key may be; and so many of one object, or of all members of a group, are compared.
_LONGEST_KEY, _MOST_COMPARED = 317, 32

# Levels that have no label's name, for there is a space in them.
NARROWEST: Final = "narrowest level"
WIDEST: Final = "widest level"

# As many as a Job may have pods.
MAX_SLICE_SIZE: Final = 100_000
MAX_SPARE_NODES: Final = 64
# Characters of a tier's name: as many as a label key may have.
_LONGEST_NAME: Final = 317
# Characters of a wrong value in a message.
_QUOTED: Final = 64


class TopologyRequest(msgspec.Struct, frozen=True):
    """What a group asks for. Levels are named by `tier_key`, by a label, or as `NARROWEST` and `WIDEST`."""

    required: str = ""
    """All members must be in one domain of this level; empty: they need not."""
    preferred: str = ""
    """One domain of this level, if possible."""
    is_unconstrained: bool = False
    slice_level: str = ""
    """Each slice must be in one domain of this level; empty: there are no slices."""
    slice_size: int = 1
    spare_nodes: int = 0
    problem: str = ""
    """What is wrong with it, with the field; then nothing else counts."""
    yields_to_annotations: bool = False
    """It is a field of the group's object: what annotations ask for, the object's or its members', takes precedence."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it names, from wide to narrow; a level that is no label is not among them."""
        named = (self.required, self.preferred, self.slice_level)
        return tuple(dict.fromkeys(each for each in named if each and " " not in each))

    @property
    def names_tiers(self) -> bool:
        """Whether it names levels otherwise than by their label."""
        return any(" " in each for each in (self.required, self.preferred, self.slice_level))

    @property
    def is_soft(self) -> bool:
        """Whether the group may go anywhere if nothing of what it prefers is possible."""
        return not (self.required or self.slice_level or self.spare_nodes)


def tier_key(tier: int | str) -> str:
    """How a tier is named, by its number or by its name."""
    return f"tier {tier}"


def tier_of_key(name: str) -> int | None:
    """The number in such a name; `None`: it is a name of another kind."""
    number = name.removeprefix("tier ")
    return int(number) if number != name and number.isascii() and number.isdigit() and len(number) < 10 else None


class KeyMeanings(dict[str, str]):
    """By unknown key of an annotation the one that was probably meant; empty: none of ours.

    A comparison takes 200 us. So the members of a group share these: for all of them together no more keys are compared
    than for a single object. What comes after those means nothing.
    """

    def __missing__(self, key: str) -> str:
        if len(self) >= _MOST_COMPARED:
            return ""
        meant = self[key] = _meant_by(key)
        return meant


def request_in_annotations(
    annotations: Mapping[str, str], meanings: KeyMeanings | None = None
) -> TopologyRequest | None:
    """What the annotations ask for; `None`: nothing. `meanings`: of keys of the group that the object belongs to."""
    suspects = [key for key in annotations if key not in ANNOTATIONS and (MARKS[0] in key or MARKS[1] in key)]
    misspelt = next(_misspelt(suspects, KeyMeanings() if meanings is None else meanings), "") if suspects else ""
    if not misspelt and ANNOTATIONS.isdisjoint(annotations):
        return None
    problem = misspelt or next(_problems(annotations), "")
    if problem:
        return TopologyRequest(problem=problem)
    return TopologyRequest(
        required=annotations.get(REQUIRED, ""),
        preferred=annotations.get(PREFERRED, ""),
        is_unconstrained=annotations.get(UNCONSTRAINED) == "true",
        slice_level=annotations.get(SLICE_LEVEL, ""),
        slice_size=int(annotations.get(SLICE_SIZE, "1")),
        spare_nodes=int(annotations.get(SPARE_NODES, "0")),
    )


def _misspelt(keys: list[str], meanings: KeyMeanings) -> Iterator[str]:
    for key in sorted(keys)[:_MOST_COMPARED]:
        meant = meanings[key]
        if meant:
            yield f"metadata.annotations[{_shown(key)}] is unknown: did you mean {meant}?"


@lru_cache(maxsize=256)
def _meant_by(key: str) -> str:
    """The annotation that was probably meant; empty: none of ours."""
    if key in OF_KUEUE_ALONE or len(key) > _LONGEST_KEY:
        return ""
    near = _NEAR_OF_KUEUE if key.lower().startswith(_KUEUES_PREFIX) else _NEAR
    # Without its prefix, too: `podset-required-topology`.
    named = [known for known in ANNOTATIONS if known.endswith(f"/{key}")]
    return next(iter(named or get_close_matches(key.lower(), sorted(ANNOTATIONS), 1, near)), "")


def _problems(annotations: Mapping[str, str]) -> Iterator[str]:
    for name in (REQUIRED, PREFERRED, SLICE_LEVEL):
        key = annotations.get(name)
        if key is not None and not is_label_key(key):
            yield f"{_field(name, key)} is not a label key"
    for name, least, most in ((SLICE_SIZE, 1, MAX_SLICE_SIZE), (SPARE_NODES, 0, MAX_SPARE_NODES)):
        text = annotations.get(name)
        if text is not None and not (
            text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most
        ):
            yield f"{_field(name, text)} is not a whole number from {least} to {most}"
    free = annotations.get(UNCONSTRAINED)
    if free is not None and free not in ("true", "false"):
        yield f'{_field(UNCONSTRAINED, free)} is neither "true" nor "false"'
    if free == "true" and (REQUIRED in annotations or PREFERRED in annotations):
        yield f"{_field(UNCONSTRAINED, free)} contradicts the topology that it asks for beside it"
    if (SLICE_LEVEL in annotations) != (SLICE_SIZE in annotations):
        yield f"metadata.annotations: {SLICE_LEVEL} and {SLICE_SIZE} belong together"
    if SPARE_NODES in annotations and not any(name in annotations for name in (REQUIRED, PREFERRED, SLICE_LEVEL)):
        yield f"{_field(SPARE_NODES, annotations[SPARE_NODES])} needs a level beside it"


def _field(name: str, value: str) -> str:
    return f"metadata.annotations[{name}] {_quoted(value)}"


def _quoted(value: str) -> str:
    """The beginning of the value, without anything that a terminal would obey."""
    return f'"{_shown(value[:_QUOTED])}{"..." if len(value) > _QUOTED else ""}"'


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def request_of_volcano(mode: str, highest_tier: int | None, highest_name: str) -> TopologyRequest:
    """What `spec.networkTopology` asks for. Either mode looks for the lowest tier that holds the group."""
    if mode not in ("", "hard", "soft"):
        return _wrong_field(f'spec.networkTopology.mode {_quoted(mode)} is neither "hard" nor "soft"')
    if highest_tier is not None and highest_tier < 1:
        return _wrong_field(f"spec.networkTopology.highestTierAllowed {highest_tier} is below 1")
    if len(highest_name) > _LONGEST_NAME or not highest_name.isprintable():
        field = f"spec.networkTopology.highestTierName {_quoted(highest_name)}"
        return _wrong_field(f"{field} is longer than {_LONGEST_NAME} characters, or has control characters")
    if mode == "soft":
        return _of_field()
    if highest_name:
        return _of_field(required=tier_key(highest_name))
    return _of_field(required=WIDEST if highest_tier is None else tier_key(highest_tier))


def _wrong_field(problem: str) -> TopologyRequest:
    return TopologyRequest(problem=problem, yields_to_annotations=True)


def _of_field(required: str = "") -> TopologyRequest:
    return TopologyRequest(required=required, preferred=NARROWEST, yields_to_annotations=True)
