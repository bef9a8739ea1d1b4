"""The Grafana dashboard of the chart, from the table of panels: `python -m tests.deploy.dashboard` writes it again.

A dashboard's JSON is nine tenths layout, which nobody reads. In `panels` a panel is its title, its unit and its
queries; rows of four are laid out here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.deploy.panels import JOB, ROWS, Panel

PATH: Final = Path(__file__).parents[2] / "deploy" / "helm" / "kscheduler" / "files" / "dashboard.json"
COLUMNS: Final = 24
HEIGHT: Final = 8
STAT_HEIGHT: Final = 4

Json = dict[str, Any]


def panel_json(panel: Panel, number: int, place: Json) -> Json:
    """A panel at its place."""
    legends = sum(1 for query in panel.queries if query.legend) > 0
    shown: Json = (
        {"colorMode": "value", "graphMode": "area", "textMode": "value_and_name" if legends else "auto"}
        if panel.stat
        else {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    )
    return {
        "id": number,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": shown,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
                "datasource": {"type": "prometheus", "uid": "$datasource"},
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def laid_out() -> Iterator[Json]:
    """Headings, and below each its panels, four abreast; single numbers all in one line."""
    number = top = 0
    for row in ROWS:
        number += 1
        heading = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": heading, "panels": []}
        top += 1
        small = row.panels[0].stat
        abreast, height = (len(row.panels), STAT_HEIGHT) if small else (4, HEIGHT)
        width = COLUMNS // abreast
        for index, panel in enumerate(row.panels):
            number += 1
            line, column = divmod(index, abreast)
            yield panel_json(panel, number, {"h": height, "w": width, "x": column * width, "y": top + line * height})
        top += height * -(-len(row.panels) // abreast)


def dashboard() -> Json:
    """The whole dashboard, by Grafana's schema 39 (Grafana 10 and later)."""
    return {
        "uid": "kscheduler",
        "title": "kscheduler",
        "tags": ["kubernetes", "scheduler"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "instance",
                    "label": "Replica",
                    "type": "query",
                    "datasource": {"type": "prometheus", "uid": "$datasource"},
                    "query": {"query": f"label_values(up{{{JOB}}}, instance)", "refId": "instances"},
                    "refresh": 2,
                    "sort": 1,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "annotations": {"list": []},
        "panels": list(laid_out()),
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
