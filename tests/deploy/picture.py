"""A picture of the dashboard with data: `make dashboard-picture` draws docs/dashboard.png.

Grafana itself is not at hand where this is made, so its panels are drawn here: layout, titles, units and queries from
the dashboard's own JSON, data from a real Prometheus that has scraped a running scheduler for some minutes. What the
picture shows is therefore what the queries return, and not how Grafana would paint it.
"""

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

import yaml
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from tests.deploy import dashboard, helm
from tests.deploy.chart.monitored import WINDOW, Prometheus, monitored_cluster

PICTURE: Final = Path(__file__).parents[2] / "docs" / "dashboard.png"
SECONDS: Final = 150
STEP: Final = 2
MAX_LEGENDS, LONGEST_LEGEND = 4, 26
BACKGROUND, PANEL, TEXT, GRID = "#111217", "#181b1f", "#ccccdc", "#2c3235"
COLOURS: Final = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#96d98d")
# Legend, seconds before the end, values.
Line = tuple[str, list[float], list[float]]
_UNFILLED: Final = re.compile(r"\{\{.*?\}\}")
_FACTORS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def shown(value: float, unit: str) -> str:
    """A number as Grafana shows it, roughly: `12 ms`, `1.5 k`, `64 MB`, `364 d`."""
    if unit == "s":
        for size, name in ((86400.0, "d"), (3600.0, "h"), (1.0, "s"), (1e-3, "ms")):
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return f"{value * 1e6:.3g} us" if value else "0 s"
    size, name = next((pair for pair in _FACTORS if abs(value) >= pair[0]), (1.0, ""))
    return f"{value / size:.3g} {name}{'B' if unit == 'bytes' else ''}{'/s' if unit == 'ops' else ''}".strip()


def series(prometheus: Prometheus, target: dict[str, Any], until: float) -> Iterator[Line]:
    """Legend, seconds and values of what a target returns over the time that is drawn."""
    expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", WINDOW)
    for found in prometheus.query_range(expression, until - SECONDS, until, STEP):
        legend = target["legendFormat"]
        for name, value in found["metric"].items():
            legend = legend.replace(f"{{{{{name}}}}}", value)
        legend = _UNFILLED.sub("none", legend)
        pairs = [(float(at) - until, float(value)) for at, value in found["values"] if value != "NaN"]
        if pairs:
            yield ("" if legend == "__auto" else legend), [at for at, _ in pairs], [value for _, value in pairs]


def draw(prometheus: Prometheus, path: Path) -> None:
    """All panels, each at its place."""
    board = dashboard.dashboard()["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board)
    figure = plt.figure(figsize=(20, height * 0.36), facecolor=BACKGROUND)
    until = time.time()
    for panel in board:
        place = panel["gridPos"]
        left, bottom = place["x"] / dashboard.COLUMNS, 1 - (place["y"] + place["h"]) / height
        if panel["type"] == "row":
            figure.text(left + 0.004, bottom + 0.3 / height, panel["title"], color=TEXT, fontsize=12, weight="bold")
            continue
        width, tall = place["w"] / dashboard.COLUMNS, place["h"] / height
        frame = (left + 0.002, bottom + 0.15 / height, width - 0.004, tall - 0.3 / height)
        figure.add_artist(plt.Rectangle(frame[:2], *frame[2:], color=PANEL, transform=figure.transFigure, zorder=-1))
        figure.text(left + 0.006, bottom + tall - 1.0 / height, panel["title"], color=TEXT, fontsize=9, weight="bold")
        found = [one for target in panel["targets"] for one in series(prometheus, target, until)]
        unit = panel["fieldConfig"]["defaults"]["unit"]
        if panel["type"] == "stat":
            words = [legend or shown(values[-1], unit) for legend, _, values in found] or ["no data"]
            where = (left + width / 2, bottom + tall * 0.4)
            figure.text(*where, "\n".join(words), color=COLOURS[0], fontsize=15, ha="center", va="center")
        else:
            axes = figure.add_axes(
                (left + 0.026, bottom + 1.9 / height, width - 0.034, tall - 3.3 / height), facecolor=PANEL
            )
            _lines(axes, found, unit)
    figure.savefig(path, dpi=72, facecolor=BACKGROUND)


def _lines(axes: Any, found: list[Line], unit: str) -> None:
    for (legend, seconds, values), colour in zip(found, COLOURS * len(found), strict=False):
        axes.plot(seconds, values, color=colour, linewidth=1.2, label=legend)
    axes.set_ylim(bottom=0, top=None if any(any(values) for _, _, values in found) else 1)
    axes.set_xlim(-SECONDS, 0)
    axes.tick_params(colors=TEXT, labelsize=7, length=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))
    axes.grid(color=GRID, linewidth=0.6)
    for spine in axes.spines.values():
        spine.set_visible(False)
    legends = [legend for legend, _, _ in found if legend]
    if legends:
        lines = axes.get_lines()[:MAX_LEGENDS]
        axes.legend(
            lines,
            [str(line.get_label())[:LONGEST_LEGEND] for line in lines],
            loc="upper left",
            bbox_to_anchor=(-0.12, -0.1),
            ncols=MAX_LEGENDS,
            fontsize=6.5,
            frameon=False,
            labelcolor=TEXT,
            columnspacing=1,
            handlelength=1,
        )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kscheduler-dashboard-") as name:
        folder = Path(name)
        rendered = helm.objects(helm.render(settings={"metrics.prometheusRule.enabled": True}))
        (rule,) = (one for one in rendered if one["kind"] == "PrometheusRule")
        rules = folder / "rules.yaml"
        rules.write_text(yaml.safe_dump({"groups": rule["spec"]["groups"]}))
        with monitored_cluster(folder, rules) as prometheus:
            time.sleep(SECONDS)
            draw(prometheus, PICTURE)
    sys.stdout.write(f"{PICTURE.relative_to(Path.cwd())}\n")


if __name__ == "__main__":
    main()
