"""The last line of an answer's text says by whose rules it was decided."""

_RULES = "\nby the rules of kube-scheduler 1."


def without_rules(text: str) -> str:
    """The text before that line, which must be there."""
    before, rules, _ = text.rpartition(_RULES)
    assert rules, text
    return before
