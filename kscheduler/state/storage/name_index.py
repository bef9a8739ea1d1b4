"""An index from a value to the names of the objects that have it, in order of arrival."""

Names = dict[str, dict[str, None]]
"""Value to names."""


def file(index: Names, value: str, name: str) -> None:
    """Add the named object under the value."""
    index.setdefault(value, {})[name] = None


def unfile(index: Names, value: str, name: str) -> None:
    """Remove the named object from the value's entry, if it is there."""
    names = index.get(value)
    if names is not None:
        names.pop(name, None)
        if not names:
            del index[value]
