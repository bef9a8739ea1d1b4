"""Semantic versions as `github.com/blang/semver` reads and orders them."""

from typing import Any

from kscheduler.cel.values import go_text
from kscheduler.cel.values.kinds import Opaque

_NUMBERS = frozenset("0123456789")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") | _NUMBERS
_MOST = 2**64 - 1


class VersionError(ValueError):
    """The text is no version; the message is the library's."""


class Semver(Opaque):
    """A version; a part of a pre-release is a number or a text."""

    __slots__ = ("build", "numbers", "pre")
    TYPE_NAME = "kubernetes.Semver"
    GO_TYPE = "cel.Semver"
    SHORT_NAME = "Semver"
    GO_VALUE = "semver.Version"
    HASHABLE = False

    def __init__(self, numbers: tuple[int, int, int], pre: tuple[int | str, ...], build: tuple[str, ...]) -> None:
        self.numbers, self.pre, self.build = numbers, pre, build

    def text(self) -> str:
        """As it is written."""
        text = ".".join(str(number) for number in self.numbers)
        text += f"-{'.'.join(str(part) for part in self.pre)}" if self.pre else ""
        return text + (f"+{'.'.join(self.build)}" if self.build else "")

    def equals(self, other: Any) -> bool:
        """Builds do not count."""
        return self.compare(other) == 0

    def compare(self, other: "Semver") -> int:
        """-1, 0 or 1: a pre-release comes before its version, numbers before texts."""
        if self.numbers != other.numbers:
            return 1 if self.numbers > other.numbers else -1
        if not self.pre or not other.pre:
            return (not self.pre) - (not other.pre)
        mine, theirs = ([_order(part) for part in version.pre] for version in (self, other))
        return (mine > theirs) - (mine < theirs)


def _order(part: int | str) -> tuple[int, int, str]:
    return (0, part, "") if isinstance(part, int) else (1, 0, part)


def _number(text: str, name: str, *, leading: str) -> int:
    if not set(text) <= _NUMBERS:
        message = f"Invalid character(s) found in {name} {go_text.quoted(text)}"
        raise VersionError(message)
    if len(text) > 1 and text[0] == "0":
        message = f"{leading} must not contain leading zeroes {go_text.quoted(text)}"
        raise VersionError(message)
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        message = 'strconv.ParseUint: parsing "": invalid syntax'
        raise VersionError(message)
    if len(text) > 20 or int(text) > _MOST:
        message = f"strconv.ParseUint: parsing {go_text.quoted(text)}: value out of range"
        raise VersionError(message)
    return int(text)


def parse(text: str) -> Semver:
    """Raises `VersionError`."""
    if not text:
        message = "Version string empty"
        raise VersionError(message)
    parts = text.split(".", 2)
    if len(parts) != 3:
        message = "No Major.Minor.Patch elements found"
        raise VersionError(message)
    major = _number(parts[0], "major number", leading="Major number")
    minor = _number(parts[1], "minor number", leading="Minor number")
    rest, plus, build = parts[2].partition("+")
    patch, minus, pre = rest.partition("-")
    numbers = (major, minor, _number(patch, "patch number", leading="Patch number"))
    pre_parts = tuple(_pre_part(part) for part in pre.split(".")) if minus else ()
    build_parts = tuple(_build_part(part) for part in build.split(".")) if plus else ()
    return Semver(numbers, pre_parts, build_parts)


def _pre_part(text: str) -> int | str:
    if not text:
        message = "Prerelease is empty"
        raise VersionError(message)
    if set(text) <= _NUMBERS:
        return _number(text, "", leading="Numeric PreRelease version")
    if not set(text) <= _LETTERS:
        message = f"Invalid character(s) found in prerelease {go_text.quoted(text)}"
        raise VersionError(message)
    return text


def _build_part(text: str) -> str:
    if not text:
        message = "Build meta data is empty"
        raise VersionError(message)
    if not set(text) <= _LETTERS:
        message = f"Invalid character(s) found in build meta data {go_text.quoted(text)}"
        raise VersionError(message)
    return text


def normalized(text: str) -> Semver:
    """A version that may start with `v`, have leading zeros, or lack numbers. Raises `VersionError`."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            message = "short version cannot contain PreRelease/Build meta data"
            raise VersionError(message)
        parts += ["0"] * (3 - len(parts))
    return parse(".".join(parts))


def _without_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    rest = part.lstrip("0")
    return rest if rest and rest[0] in _NUMBERS else f"0{rest}"
