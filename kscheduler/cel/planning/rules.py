"""What differs between releases when expressions are evaluated."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EvaluationRules:
    """`optionals_through_go`: fields of an optional go through Go's types. `lenient_or`: `or` of what is no optional is
    that. `charged_includes`: `includes` costs what going through its list costs.
    """

    optionals_through_go: bool
    lenient_or: bool
    charged_includes: bool
