"""Two lists of the same things, by name: what is new, gone and changed, and how a report says so."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# What is compared: a name, and all that matters of it in words.
Listing = Mapping[str, str]


@dataclass(frozen=True)
class Differences:
    """Between a release's list and ours."""

    new: Listing
    gone: Listing
    changed: Mapping[str, tuple[str, str]]
    """By name: ours, theirs."""

    def __len__(self) -> int:
        return len(self.new) + len(self.gone) + len(self.changed)

    def lines(self) -> Iterator[str]:
        """A Markdown list, or a sentence."""
        if not len(self):
            yield "No difference."
        for title, listing in (("New", self.new), ("Gone", self.gone)):
            for name, text in listing.items():
                yield f"- {title}: `{name}`{f': {text}' if text else ''}"
        for name, (ours, theirs) in self.changed.items():
            yield f"- Changed: `{name}`: {ours or 'nothing'} → {theirs or 'nothing'}"


def compare(theirs: Listing, ours: Listing) -> Differences:
    """Both sorted by name."""
    both = sorted(theirs.keys() & ours.keys())
    return Differences(
        {name: theirs[name] for name in sorted(theirs.keys() - ours.keys())},
        {name: ours[name] for name in sorted(ours.keys() - theirs.keys())},
        {name: (ours[name], theirs[name]) for name in both if ours[name] != theirs[name]},
    )


@dataclass(frozen=True)
class Rows:
    """What a person should look at, the most important first."""

    rows: Listing

    def __len__(self) -> int:
        return len(self.rows)

    def lines(self) -> Iterator[str]:
        """A Markdown list."""
        yield from (f"- `{name}`: {text}" for name, text in self.rows.items())


def without_changes(found: Differences) -> Differences:
    """What is only elsewhere now counts for nothing."""
    return Differences(found.new, found.gone, {})


def flat(tree: object, path: str = "") -> dict[str, str]:
    """The leaves of a decoded JSON object, by path; items of a list that have a name are found by it."""
    if isinstance(tree, dict):
        return {key: text for name, value in tree.items() for key, text in flat(value, f"{path}.{name}").items()}
    if isinstance(tree, list) and tree:
        leaves: dict[str, str] = {}
        for index, item in enumerate(tree):
            place = item.get("name", index) if isinstance(item, dict) else index
            leaves |= flat(item, f"{path}[{place}]")
        names = [str(item.get("name")) for item in tree if isinstance(item, dict)]
        return leaves | ({f"{path.removeprefix('.')} in order": ", ".join(names)} if any(names) else {})
    is_whole = isinstance(tree, float) and tree.is_integer()
    return {path.removeprefix("."): str(int(tree) if is_whole else tree)}  # type: ignore[call-overload]
