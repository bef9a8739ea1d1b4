"""A shadow's report as an HTML page: no script, no outside assets; it loads itself again each ten seconds."""

from collections.abc import Iterator
from html import escape
from typing import Final

from kscheduler.shadow.as_text import KINDS, percent_text, points_table, shadow_text
from kscheduler.shadow.report import ShadowExample, ShadowReport

STYLE: Final = """\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}
th,td{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top;border-bottom:1px solid #8884}
td.n{text-align:right;font-variant-numeric:tabular-nums}
pre{white-space:pre-wrap;margin:.2rem 0}
"""


def shadow_page(report: ShadowReport) -> str:
    follows = ", ".join(map(escape, report.follows.schedulers))
    agreement = report.agreement
    share = "nothing compared yet" if agreement is None else f"agreement {percent_text(agreement)}"
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="10">',
            f"<title>Shadow of {follows}</title><style>{STYLE}</style></head><body><main>",
            f"<h1>Shadow of {follows}</h1>",
            f"<p>{report.compared} bindings compared, {report.differences} differences: {share}.</p>",
            '<p><a href="shadow.json">As JSON</a></p>',
            *_kinds(report),
            *_reasons(report),
            *_examples(report),
            f"<h2>The whole report</h2><pre>{escape(shadow_text(report))}</pre></main></body></html>",
        )
    )


def _kinds(report: ShadowReport) -> Iterator[str]:
    yield "<h2>Comparisons by kind</h2><table><thead><tr><th>pods</th><th>kind</th><th>meaning</th></tr></thead><tbody>"
    for kind, meaning in KINDS.items():
        yield f'<tr><td class="n">{report.kinds[kind]}</td><td>{kind}</td><td>{meaning}</td></tr>'
    yield "</tbody></table>"


def _reasons(report: ShadowReport) -> Iterator[str]:
    if not report.reasons:
        return
    yield "<h2>Why pods would have gone elsewhere</h2><table><thead><tr><th>pods</th><th>kind</th><th>reason</th>"
    yield "<th>for example</th></tr></thead><tbody>"
    for each in report.reasons:
        pods = ", ".join(map(escape, each.examples))
        yield f'<tr><td class="n">{each.pods}</td><td>{each.kind}</td><td>{escape(each.reason)}</td>'
        yield f"<td>{pods}</td></tr>"
    yield "</tbody></table>"


def _examples(report: ShadowReport) -> Iterator[str]:
    for kind in KINDS:
        examples = report.examples.get(kind, ())
        if not examples:
            continue
        yield f"<h2>{kind}: the last {len(examples)}</h2><table><thead><tr><th>pod</th><th>theirs</th><th>ours</th>"
        yield "<th>why</th></tr></thead><tbody>"
        for example in reversed(examples):
            cells = (example.pod, example.theirs, example.ours or "no node")
            yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}<td>{_why(example)}</td></tr>"
        yield "</tbody></table>"


def _why(example: ShadowExample) -> str:
    if example.order is not None:
        return escape(f"{example.order.text} (view {example.order.tries})")
    parts = [escape(example.reason or example.message or "")]
    if example.against is not None and (table := points_table(example.against)):
        parts.append(f"<pre>{escape(chr(10).join(table))}</pre>")
    return "".join(parts)
