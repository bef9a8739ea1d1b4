"""Control characters in what others wrote, made visible.

The problem: a plugin's error or a file's name may hold line ends and escape sequences; raw on a terminal they forge
lines of ours, or worse. The idea: such a character is shown as Python's literals spell it, all else as it is.
"""


def escaped(text: str) -> str:
    """The text in one line that a terminal takes for nothing but text."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
