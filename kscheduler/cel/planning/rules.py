"""What differs between releases when expressions are evaluated."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EvaluationRules:
    """`optionals_through_go`: fields of an optional go through Go's types. `lenient_or`: `or` of what is no optional is
    that. `old_costs`: `startsWith` and `endsWith` cost by the text, not by the part, `includes` costs 1.
    """

    optionals_through_go: bool
    lenient_or: bool
    old_costs: bool
