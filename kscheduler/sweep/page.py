"""The page of a sweep: one HTML file without scripts or outside assets, its plots inline SVG."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from html import escape
from operator import attrgetter
from os.path import commonprefix
from statistics import fmean
from typing import Final

from kscheduler.sweep.row import COLUMNS, SweepRow
from kscheduler.sweep.search import LOSSES, SearchResult, loss
from kscheduler.sweep.search_text import search_lines
from kscheduler.sweep.summary import (
    SHOWN,
    ColumnSpread,
    PolicySummary,
    notes_of,
    spread_text,
    summaries,
    with_common_seeds,
    workload_of,
)

_STYLE: Final = """\
:root{color-scheme:light dark;--dot:#3b6fb6;--best:#1a7f4b}
@media (prefers-color-scheme:dark){:root{--dot:#8fb4e8;--best:#6cd39b}}
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;display:block;overflow-x:auto}
th,td{text-align:right;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #8884;font-variant-numeric:tabular-nums;
white-space:nowrap}
th:first-child,td:first-child{text-align:left}
td.best{color:var(--best);font-weight:600}
.plots{display:flex;flex-wrap:wrap;gap:1rem 2rem}
figure{margin:0}figcaption{font-weight:600}
svg text{font:12px system-ui,sans-serif;fill:currentColor}
svg .row{stroke:#8884}svg .dot{fill:var(--dot);fill-opacity:.45}svg .mean{stroke:var(--dot);stroke-width:3}
"""
# Columns in neither set are shown without a best value.
_LOWER_IS_BETTER: Final = frozenset(
    ("waiting", "gangs_waiting", "gpus_unusable", "nodes_used", "zone_skew", "price", "queue_seconds_p99", "loss")
)
_HIGHER_IS_BETTER: Final = frozenset(("placed", "gpu_allocated"))
_LABELS, _WIDTH, _VALUES, _LINE, _TOP = 250, 260, 70, 22, 8
_LONGEST_LABEL: Final = 34


def sweep_page(rows: Sequence[SweepRow], title: str, found: SearchResult | None = None) -> str:
    """The page. `found`: the result of a search."""
    failed = [row for row in rows if row.error]
    finalists = None if found is None else {each.policy for each in found.finalists}
    shown, seeds = with_common_seeds([row for row in rows if finalists is None or row.policy in finalists])
    of_all = summaries(shown, {} if found is None else {"loss": partial(loss, goal=found.goal)})
    workloads = dict.fromkeys(each.workload for each in of_all)
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{escape(title)}</h1>",
            f"<p>{len(rows):,} runs, {len(failed):,} of them failed. kscheduler {escape(_versions(rows))}.</p>",
            *_search(found),
            *_overview(of_all),
            *_finalists_only(rows, finalists),
            *(part for name in workloads for part in _workload(name, shown, of_all, seeds.get(name), found)),
            *_notes(rows),
            *_failures(failed),
            *_column_list(found),
            "</main></body></html>\n",
        )
    )


def _versions(rows: Sequence[SweepRow]) -> str:
    return ", ".join(sorted({row.version for row in rows}))


def _search(found: SearchResult | None) -> Iterator[str]:
    if found is not None:
        yield "<h2>The search</h2><pre>" + escape("\n".join(search_lines(found))) + "</pre>"


def _finalists_only(rows: Sequence[SweepRow], finalists: set[str] | None) -> Iterator[str]:
    if finalists is not None and (others := {row.policy for row in rows} - finalists):
        yield (
            f"<p>Below are the finalists and the policy as it is. {len(others):,} other candidates were dropped after "
            "fewer seeds, so their means cannot be compared with these; results.parquet has their runs.</p>"
        )


# --- all workloads ----------------------------------------------------------------------------------------------------


def _overview(of_all: Sequence[PolicySummary]) -> Iterator[str]:
    """For each column that several workloads have, a table of them by policy."""
    workloads = list(dict.fromkeys(each.workload for each in of_all))
    policies = list(dict.fromkeys(each.policy for each in of_all))
    if len(workloads) < 2:
        return
    yield "<h2>All workloads</h2>"
    for column, title, digits in SHOWN:
        if column not in _LOWER_IS_BETTER | _HIGHER_IS_BETTER:
            continue
        by_place = {(each.workload, each.policy): each.columns[column] for each in of_all if column in each.columns}
        if not by_place:
            continue
        yield f"<h3>{escape(title)}</h3><table><thead><tr><th>workload</th>"
        yield "".join(f"<th>{escape(policy)}</th>" for policy in policies) + "</tr></thead><tbody>"
        for workload in workloads:
            cells = {policy: by_place[workload, policy] for policy in policies if (workload, policy) in by_place}
            if cells:
                yield f"<tr><td>{escape(workload)}</td>{''.join(_cells(policies, cells, column, digits))}</tr>"
        yield "</tbody></table>"


def _cells(policies: Sequence[str], cells: Mapping[str, ColumnSpread], column: str, digits: int) -> Iterator[str]:
    best = _best([cell.mean for cell in cells.values()], column)
    for policy in policies:
        cell = cells.get(policy)
        mark = ' class="best"' if cell is not None and cell.mean == best and len(cells) > 1 else ""
        yield f"<td{mark}>{spread_text(cell, digits)}</td>"


def _best(means: Sequence[float], column: str) -> float | None:
    """`None`: all are equal, or the column has no better direction."""
    if column not in _LOWER_IS_BETTER | _HIGHER_IS_BETTER or len(set(means)) < 2:
        return None
    return min(means) if column in _LOWER_IS_BETTER else max(means)


# --- one workload -----------------------------------------------------------------------------------------------------


def _workload(
    name: str,
    rows: Sequence[SweepRow],
    of_all: Sequence[PolicySummary],
    seeds: Sequence[int] | None,
    found: SearchResult | None,
) -> Iterator[str]:
    """`seeds`: those that all policies have, if some have others, too."""
    mine = [each for each in of_all if each.workload == name]
    figures = SHOWN if found is None else (("loss", f"{found.goal}: loss", 2), *SHOWN)
    shown = [each for each in figures if any(each[0] in summary.columns for summary in mine)]
    yield f"<h2>{escape(name)}</h2>{_seeds_text(seeds)}"
    yield f"{_best_policy(mine) if seeds != () else ''}<table><thead><tr><th>policy</th><th>runs</th>"
    yield "".join(f"<th>{escape(title)}</th>" for _, title, _ in shown) + "</tr></thead><tbody>"
    for summary in mine:
        yield f"<tr><td>{escape(summary.policy)}</td><td>{summary.rows - summary.failed}</td>"
        for column, _, digits in shown:
            by_policy = {each.policy: each.columns[column] for each in mine if column in each.columns}
            yield from _cells([summary.policy], by_policy, column, digits)
        yield "</tr>"
    yield '</tbody></table><div class="plots">'
    of_workload = [row for row in rows if workload_of(row) == name and not row.error]
    for column, title, digits in shown:
        if column in _LOWER_IS_BETTER | _HIGHER_IS_BETTER:
            figure = partial(loss, goal=found.goal) if found is not None and column == "loss" else attrgetter(column)
            yield from _plot([(row.policy, figure(row)) for row in of_workload], title, digits)
    yield "</div>"


def _seeds_text(seeds: Sequence[int] | None) -> str:
    if seeds is None:
        return ""
    if not seeds:
        return "<p>The policies have no seed in common: their means are over different pods.</p>"
    which = "seed" if len(seeds) == 1 else "seeds"
    return f"<p>Of the {which} that all of these policies have: {', '.join(map(str, seeds))}.</p>"


def _best_policy(mine: Sequence[PolicySummary]) -> str:
    """Which policy left the fewest unusable GPUs."""
    found = sorted(
        (each.columns["gpus_unusable"].mean, each.policy) for each in mine if "gpus_unusable" in each.columns
    )
    if len(found) < 2 or found[0][0] == found[-1][0]:
        return ""
    (least, by), (most, worst) = found[0], found[-1]
    return (
        f"<p>Fewest GPUs that no pod could use: <strong>{escape(by)}</strong> with {least:,.1f}; "
        f"most: {escape(worst)} with {most:,.1f}.</p>"
    )


def _plot(points: Sequence[tuple[str, float | None]], title: str, digits: int) -> Iterator[str]:
    """A line for each policy: a dot for each run, a bar at the mean. `points`: policy and value of each run."""
    by_policy: dict[str, list[float]] = {}
    for policy, value in points:
        if value is not None:
            by_policy.setdefault(policy, []).append(float(value))
    values = [value for of_policy in by_policy.values() for value in of_policy]
    if len(set(values)) < 2:
        return
    low, high = min(values), max(values)
    height = _TOP + _LINE * (len(by_policy) + 1)
    width = _LABELS + _WIDTH + _VALUES
    yield f"<figure><figcaption>{escape(title)}</figcaption>"
    yield f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
    yield f"<title>{escape(f'{title} by policy, a dot for each run')}</title>"
    labels = _labels(list(by_policy))
    for index, (policy, of_policy) in enumerate(by_policy.items()):
        y = _TOP + _LINE * index + _LINE // 2
        mean = fmean(of_policy)
        at = _LABELS + _WIDTH * (mean - low) / (high - low)
        yield f'<text x="0" y="{y + 4}">{escape(labels[policy])}<title>{escape(policy)}</title></text>'
        yield f'<line class="row" x1="{_LABELS}" x2="{_LABELS + _WIDTH}" y1="{y}" y2="{y}"/>'
        for value in of_policy:
            yield f'<circle class="dot" cx="{_LABELS + _WIDTH * (value - low) / (high - low):.1f}" cy="{y}" r="4"/>'
        yield f'<line class="mean" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 7}" y2="{y + 7}"/>'
        yield f'<text x="{width}" y="{y + 4}" text-anchor="end">{mean:,.{digits}f}</text>'
    y = height - 6
    yield f'<text x="{_LABELS}" y="{y}">{low:,.{digits}f}</text>'
    yield f'<text x="{_LABELS + _WIDTH}" y="{y}" text-anchor="end">{high:,.{digits}f}</text></svg></figure>'


def _labels(policies: Sequence[str]) -> dict[str, str]:
    """By policy a label that fits: of long names what differs, which is mostly the weights.

    `best-fit[BestFit=1,ImageLocality=0]` and the same with 10 become `…BestFit=1,ImageLocality=0]` and so on.
    """
    long = [policy for policy in policies if len(policy) > _LONGEST_LABEL]
    # The equal beginning ends at a whole name: before the plugin whose weight differs.
    equal = commonprefix(long) if len(long) > 1 else ""  # noqa: RUF071  names, not paths
    equal = equal[: max(equal.rfind("["), equal.rfind(",")) + 1]
    labels = {policy: policy for policy in policies}
    labels.update({policy: _cut(f"…{policy[len(equal) :]}" if equal else policy) for policy in long})
    return labels


def _cut(label: str) -> str:
    """Without its middle, if it is too long: weights are at the end."""
    if len(label) <= _LONGEST_LABEL:
        return label
    head = _LONGEST_LABEL // 3
    return f"{label[:head]}…{label[len(label) - (_LONGEST_LABEL - head - 1) :]}"


# --- the rest ---------------------------------------------------------------------------------------------------------


def _notes(rows: Sequence[SweepRow]) -> Iterator[str]:
    if texts := list(notes_of(rows)):
        yield "<h2>Notes</h2><ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _failures(failed: Sequence[SweepRow]) -> Iterator[str]:
    if not failed:
        return
    yield "<h2>Failed runs</h2><table><thead><tr><th>run</th><th>error</th></tr></thead><tbody>"
    for row in failed:
        name = escape(f"{row.policy} on {workload_of(row)}, seed {row.seed}")
        yield f"<tr><td>{name}</td><td>{escape(row.error)}</td></tr>"
    yield "</tbody></table>"


def _column_list(found: SearchResult | None) -> Iterator[str]:
    yield "<h2>What the columns are</h2><p>Means over the runs with their standard deviation.</p><dl>"
    if found is not None:
        yield f"<dt>{escape(found.goal)}: loss</dt><dd>what the search makes small: {escape(LOSSES[found.goal])}</dd>"
    for column, title, _ in SHOWN:
        yield f"<dt>{escape(title)} (<code>{column}</code>)</dt><dd>{escape(COLUMNS[column])}</dd>"
    yield "</dl>"
