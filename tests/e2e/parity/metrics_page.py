"""A page of Prometheus' text format as its reader sees it: the shape of each series, and its numbers.

The shape is what dashboards and alerts are written against: name, type, label names and bucket bounds. Two pages are
compared by shape as a whole, and by the numbers of the series that count the same happenings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

# Sorted (name, value) pairs.
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Shape:
    """What a query needs to know of a series."""

    kind: str
    labels: frozenset[str]
    bounds: tuple[str, ...] = ()
    """The `le` values of a histogram, as they are printed."""


@dataclass(frozen=True)
class Page:
    """One scrape."""

    shapes: Mapping[str, Shape]
    numbers: Mapping[str, Mapping[Labels, float]] = field(repr=False)
    """By name and labels; of a histogram its number of observations."""

    def only(self, prefixes: tuple[str, ...]) -> "Page":
        """The series whose names begin with one of these."""
        shapes = {name: shape for name, shape in self.shapes.items() if name.startswith(prefixes)}
        return Page(shapes, {name: self.numbers[name] for name in shapes})

    def values_of(self, series: str, label: str) -> frozenset[str]:
        """Every value that one label of a series takes."""
        return frozenset(dict(labels).get(label, "") for labels in self.numbers.get(series, {}))

    def total(self, series: str, **labels: str) -> float:
        """The sum over all children that carry these labels."""
        wanted = labels.items()
        return sum(value for found, value in self.numbers.get(series, {}).items() if wanted <= dict(found).items())


def read(text: str, prefix: str | tuple[str, ...]) -> Page:
    """The series of a page whose names begin so, or with one of these. A counter keeps the `_total` of its name."""
    families = [one for one in text_string_to_metric_families(text) if one.name.startswith(prefix)]
    shapes = {full_name(family): shape(family) for family in families if family.samples}
    return Page(shapes, {full_name(family): numbers(family) for family in families if family.samples})


def full_name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def shape(family: Metric) -> Shape:
    labels = {name for sample in family.samples for name in sample.labels} - {"le"}
    # In the order of the page, which is ascending; once per bound, though each child has them all.
    bounds = dict.fromkeys(sample.labels["le"] for sample in family.samples if "le" in sample.labels)
    return Shape(family.type, frozenset(labels), tuple(bounds))


def numbers(family: Metric) -> dict[Labels, float]:
    suffix = "_count" if family.type == "histogram" else ""
    counted = [sample for sample in family.samples if sample.name.endswith(suffix) and "le" not in sample.labels]
    return {tuple(sorted(sample.labels.items())): sample.value for sample in counted}


def shape_differences(theirs: Page, ours: Page, unknown_to_us: Iterable[str] = ()) -> list[str]:
    """A line per series of theirs that ours lacks or has in another shape, and per unknown one that we do have."""
    lines = []
    for name, expected in theirs.shapes.items():
        found = ours.shapes.get(name)
        if name in set(unknown_to_us):
            lines += [f"{name} is listed as unknown to us, and is there"] if found else []
        elif found != expected:
            lines.append(f"{name}: {found} where theirs is {expected}")
    return lines


def number_differences(theirs: Page, ours: Page, series: str) -> dict[Labels, tuple[float, float]]:
    """By labels (theirs, ours), where the two differ; what is absent counts as zero."""
    one, other = theirs.numbers.get(series, {}), ours.numbers.get(series, {})
    both = {labels: (one.get(labels, 0.0), other.get(labels, 0.0)) for labels in one.keys() | other.keys()}
    return {labels: pair for labels, pair in both.items() if pair[0] != pair[1]}
