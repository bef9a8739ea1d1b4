"""Which objects have something in common: an index from a value to object names, in order of arrival."""

Names = dict[str, dict[str, None]]
"""Value to names."""


def file(index: Names, value: str, name: str) -> None:
    """The named object has the value."""
    index.setdefault(value, {})[name] = None


def unfile(index: Names, value: str, name: str) -> None:
    """It has the value no longer."""
    names = index.get(value)
    if names is not None:
        names.pop(name, None)
        if not names:
            del index[value]
