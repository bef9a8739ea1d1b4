"""Control characters in text from outside, made visible.

The problem: a plugin's error or a file's name may contain line ends and escape sequences; printed raw on a terminal,
they forge lines of this program, or worse. The idea: such characters are shown as escapes of a Python literal.
"""


def escaped(text: str) -> str:
    """The text in one line, without characters that a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
