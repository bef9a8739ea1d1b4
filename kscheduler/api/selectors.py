"""Label, field and node selectors, parsed once into values with a method `matches`.

A requirement is a small value; a selector is the conjunction of its requirements. Parsing never raises: a requirement
that the API would refuse (an unknown operator, `Gt` without a number, an invalid label value) matches nothing, as in
kube-scheduler, where a term that cannot be parsed does not match. Such terms do arrive: the API server accepts any
value in *preferred* node affinity, and any text as the number of `Gt` and `Lt`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property

import msgspec

from kscheduler.api.core import LabelSelector, LabelSelectorRequirement, NodeSelectorRequirement, NodeSelectorTerm


class Operator(Enum):
    """The comparison of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    NEVER = ""
    """The requirement cannot be parsed: nothing matches."""

    __hash__ = object.__hash__  # Enum's own is Python code, and each requirement's hash calls it


_DIGITS = frozenset("0123456789")
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = r"(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = re.compile(f"({_SUBDOMAIN}/)?{_NAME}")
_LABEL_VALUE = re.compile(f"({_NAME})?")
_LABEL_OPERATORS = {operator.value: operator for operator in Operator if operator.value not in ("", "Gt", "Lt")}
_NODE_OPERATORS = {operator.value: operator for operator in Operator if operator.value}


def parse_int64(text: str) -> int | None:
    """A decimal int64 as Go's ParseInt reads it: an optional sign and ASCII digits; `None` for anything else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or len(digits) > 40 or not _DIGITS.issuperset(digits):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def is_label_key(text: str) -> bool:
    """Whether a label may have this key: a name of up to 63 characters, optionally after `DNS-subdomain/`."""
    return _LABEL_KEY.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether a label may have this value: empty, or at most 63 letters, digits and, not at the ends, `-`, `_`, `.`."""
    return _LABEL_VALUE.fullmatch(text) is not None


class Requirement(msgspec.Struct, frozen=True):
    """`key operator values`, with the number of Gt and Lt in `bound`."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    bound: int = 0

    def matches_value(self, value: str | None) -> bool:
        """Whether a label's value (`None`: the label is missing) satisfies the requirement."""
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.NEVER:
                return False
            case Operator.GT | Operator.LT:
                return self._matches_number(value)

    def _matches_number(self, value: str | None) -> bool:
        number = None if value is None else parse_int64(value)
        if number is None:
            return False
        return number > self.bound if self.operator is Operator.GT else number < self.bound

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy the requirement."""
        value = labels.get(self.key)
        if self.operator is Operator.IN:  # as most are: a call less for each pod and term
            return value in self.values
        return self.matches_value(value)


class Selector(msgspec.Struct, frozen=True):
    """Requirements that must all hold. Without requirements it matches everything; with `nothing` set, nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy all requirements."""
        if self.nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110  a generator costs as much as the one or two requirements
            if not requirement.matches(labels):
                return False
        return True

    @property
    def size(self) -> int:
        """How many requirements and values it has: what it takes in memory follows from that."""
        return sum([1 + len(requirement.values) for requirement in self.requirements])

    @property
    def is_empty(self) -> bool:
        """Whether there are no requirements (so that it matches everything, unless it is `NOTHING`)."""
        return not self.requirements


NOTHING = Selector(nothing=True)
EVERYTHING = Selector()


class NodeTerm(msgspec.Struct, frozen=True, dict=True):
    """A parsed node selector term: requirements on labels and on `metadata.name`."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    nothing: bool = False

    @cached_property
    def joint_labels(self) -> tuple[Requirement, ...]:
        """Requirements that together say the same as `labels`, at most one for each key and operator."""
        return self.labels if len(self.labels) < 2 else _joint(self.labels)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name satisfies the term."""
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.labels) and all(
            requirement.matches_value(name) for requirement in self.fields
        )


def parse_label_selector(selector: LabelSelector | None) -> Selector:
    """Parse a label selector; `None` selects nothing, an empty selector everything, an invalid selector nothing."""
    # Terms come by the thousand, most of them with one requirement or none.
    if selector is None:
        return NOTHING
    if not (selector.match_labels or selector.match_expressions):
        return EVERYTHING
    requirements = [
        Requirement(key, _never_unless_valid(Operator.IN, key, (value,)), frozenset((value,)))
        for key, value in selector.match_labels.items()
    ]
    requirements += [_label_requirement(expression) for expression in selector.match_expressions]
    for requirement in requirements:
        if requirement.operator is Operator.NEVER:
            return NOTHING
    if len(requirements) > 1:
        requirements.sort(key=_order)
    return Selector(tuple(requirements))


def parse_node_selector_map(node_selector: Mapping[str, str]) -> NodeTerm:
    """Parse `spec.nodeSelector`: every label must have exactly this value, even a value that no label can have."""
    pairs = sorted(node_selector.items())
    return NodeTerm(tuple([Requirement(key, Operator.IN, frozenset((value,))) for key, value in pairs]))


def parse_node_term(term: NodeSelectorTerm) -> NodeTerm:
    """Parse a node selector term; an empty or invalid term matches nothing."""
    labels = tuple(_node_requirement(expression) for expression in term.match_expressions)
    fields = tuple(_field_requirement(expression) for expression in term.match_fields)
    nothing = not (labels or fields) or any(part.operator is Operator.NEVER for part in (*labels, *fields))
    return NodeTerm(labels, fields, nothing)


def _joint(requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """All requirements on a key with the same operator in one: In by the values of all, NotIn by those of any, and of
    the bounds the narrowest. The order is that of the first of each.
    """
    alike: dict[tuple[str, Operator], list[Requirement]] = {}
    for requirement in requirements:
        alike.setdefault((requirement.key, requirement.operator), []).append(requirement)
    if len(alike) == len(requirements):
        return tuple(requirements)
    return tuple(each[0] if len(each) == 1 else _one_of_all(each) for each in alike.values())


def _one_of_all(alike: Sequence[Requirement]) -> Requirement:
    key, operator = alike[0].key, alike[0].operator
    match operator:
        case Operator.IN:
            return Requirement(key, operator, frozenset.intersection(*(each.values for each in alike)))
        case Operator.NOT_IN:
            return Requirement(key, operator, frozenset().union(*(each.values for each in alike)))
        case Operator.GT:
            return max(alike, key=lambda each: each.bound)
        case Operator.LT:
            return min(alike, key=lambda each: each.bound)
        case _:
            return alike[0]


def _label_requirement(expression: LabelSelectorRequirement) -> Requirement:
    operator = _LABEL_OPERATORS.get(expression.operator, Operator.NEVER)
    operator = _never_unless_valid(
        _never_unless_count_fits(operator, expression.values), expression.key, expression.values
    )
    return Requirement(expression.key, operator, frozenset(expression.values))


def _node_requirement(expression: NodeSelectorRequirement) -> Requirement:
    """A bound is also a label value, so it has no sign: `Gt -1` and `Gt +1` cannot be parsed."""
    operator = _NODE_OPERATORS.get(expression.operator, Operator.NEVER)
    bound: int | None = None
    if operator in (Operator.GT, Operator.LT):
        bound = parse_int64(expression.values[0]) if len(expression.values) == 1 else None
        operator = Operator.NEVER if bound is None else operator
    else:
        operator = _never_unless_count_fits(operator, expression.values)
    operator = _never_unless_valid(operator, expression.key, expression.values)
    return Requirement(expression.key, operator, frozenset(expression.values), bound or 0)


def _field_requirement(expression: NodeSelectorRequirement) -> Requirement:
    operator = _NODE_OPERATORS.get(expression.operator, Operator.NEVER)
    is_supported = expression.key == "metadata.name" and operator in (Operator.IN, Operator.NOT_IN)
    if not is_supported or len(expression.values) != 1:
        operator = Operator.NEVER
    return Requirement(expression.key, operator, frozenset(expression.values))


def _never_unless_count_fits(operator: Operator, values: tuple[str, ...]) -> Operator:
    """`operator`, or NEVER unless In and NotIn have values and Exists and DoesNotExist have none."""
    needs_values = operator in (Operator.IN, Operator.NOT_IN)
    return operator if needs_values == bool(values) else Operator.NEVER


def _never_unless_valid(operator: Operator, key: str, values: Iterable[str]) -> Operator:
    """`operator`, or NEVER unless key and values are valid for labels (`labels.NewRequirement` of apimachinery)."""
    return operator if is_label_key(key) and all(map(is_label_value, values)) else Operator.NEVER


def _order(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return requirement.key, requirement.operator.value, tuple(sorted(requirement.values))
