"""What to say of a word that is no verb: its name in the other program, or the verb that was meant.

The same questions have two names: `kscheduler explain` and `simulate` are `kubectl kscheduler why` and `whatif`.
"""

from collections.abc import Collection, Mapping
from typing import Final

OF_KSCHEDULER: Final[Mapping[str, str]] = {
    "why": "`kscheduler explain` (or `kubectl kscheduler why`)",
    "whatif": "`kscheduler simulate` (or `kubectl kscheduler whatif`)",
    "top": "`kubectl kscheduler top`",
    "nodes": "`kubectl kscheduler nodes`",
}
"""By verb of the kubectl plugin, what `kscheduler` says instead."""
OF_KUBECTL: Final[Mapping[str, str]] = {
    "explain": "`kubectl kscheduler why` (or `kscheduler explain`)",
    "simulate": "`kubectl kscheduler whatif` (or `kscheduler simulate`)",
}
_ALIKE: Final = 0.6


def unknown_verb(word: str, verbs: Collection[str], elsewhere: Mapping[str, str]) -> str:
    """What is wrong with the word, and what was meant as far as that can be guessed. `elsewhere`: by verb the words."""
    if word in elsewhere:
        return f"there is no {word} here: it is {elsewhere[word]}"
    from difflib import get_close_matches

    near = get_close_matches(word, verbs, n=1, cutoff=_ALIKE)
    return f"there is no {word!r}" + (f": did you mean {near[0]}?" if near else "")
