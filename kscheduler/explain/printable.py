"""Other people's names on somebody's terminal."""


def printable(text: str) -> str:
    """The text without control characters, direction overrides and the like."""
    return "".join(character for character in text if character.isprintable())


def some(names: list[str], most: int) -> list[str]:
    """The first so many, and how many there are besides."""
    shown = [printable(name) for name in names[:most]]
    return [*shown, f"and {len(names) - most} more"] if len(names) > most else shown
