"""Pseudonyms: a keyed hash for each name.

    web-1                    h3v7k2q9xw4ma      equal names are equal everywhere: a node, its label, a selector
    default/web-1            each part of its own, so that the key of an object is made of its namespace and its name
    north__south             likewise: the zones of a volume
    europe-west4-b           likewise, at the dashes: the region of a Google zone is its first two parts
    42, -3, 0.25, true       stay: Gt and Lt compare numbers, a price is one; so does a name that is only a number
    pvc-<UUID>               stays: a provisioner has made it up, and it says nothing

Whoever has a recording and no key cannot tell a name by trying names out. Lengths and shapes of names are gone, too.
"""

import base64
import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from kscheduler.api.selectors import is_label_value
from kscheduler.framework.pods.pod_info import normalized_image_name

MOST_KNOWN: Final = 65_536
"""Names whose pseudonyms are kept, so that a name is hashed once in a while and not at each update."""

_STAYS: Final = re.compile(
    r"[+-]?[0-9]+(\.[0-9]+)?|true|false|pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|local-pv-[0-9a-f]+"
)
_ZONE_OF_GOOGLE: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")
_HANDLE_WORDS: Final = frozenset(("", "aws:", "projects", "zones", "regions", "disks", "UNSPECIFIED"))
_DIGEST_BYTES: Final = 10
_NUMBER: Final = re.compile(r"[0-9]+(/[0-9]+)?")
_BREAKS: Final = re.compile(r"[\s,;:()\[\]{}\"'=]+")


class Pseudonyms:
    """Of one key."""

    def __init__(self, key: bytes) -> None:
        """`key`: any bytes, the more random the better."""
        self._key = blake2b(key, digest_size=32).digest()
        self.text: Callable[[str], str] = lru_cache(MOST_KNOWN)(self._text)
        """Of any name, or several with slashes between them."""

    def label(self, value: str) -> str:
        """A label's value in a selector: what no label can be stays what no label can be, and matches nothing."""
        found = self.text(value)
        if found == value:
            return value
        if is_label_value(value):
            return found if is_label_value(found) else self._hashed(value)
        return f"{found}!"

    def image(self, name: str) -> str:
        """With a tag, so that it is not added a second time."""
        return f"{self._hashed(normalized_image_name(name))}:h" if name else name

    def disk(self, handle: str) -> str:
        """A disk's name at its provider, in which volumes of old in-tree drivers have their zone."""
        return "/".join(
            part
            if part in _HANDLE_WORDS
            else f"vol-{self._hashed(part[4:])}"
            if part.startswith("vol-")
            else self.text(part)
            for part in handle.split("/")
        )

    def _text(self, text: str) -> str:
        for separator in ("/", "__"):
            if separator in text:
                return separator.join(self._text(part) for part in text.split(separator))
        if not text or _STAYS.fullmatch(text):
            return text
        if _ZONE_OF_GOOGLE.fullmatch(text):
            return "-".join(self._hashed(part) for part in text.split("-"))
        return self._hashed(text)

    def _hashed(self, text: str) -> str:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=_DIGEST_BYTES).digest()
        return "h" + base64.b32encode(digest).decode().lower()


def numbers_in(message: str) -> str:
    """What is left of a message: its numbers, ascending. Names are gone, and so is their order.

    `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had taint {a: b}.` becomes `0/5 2 3`.
    """
    words = (word.rstrip(".") for word in _BREAKS.split(message))
    return " ".join(sorted(word for word in words if _NUMBER.fullmatch(word)))
