"""The composition root: `parts` builds, `surface` shows, `service` starts and stops.

A program of yours that brings its own plugins calls `run(Options(...))`.
"""

from kscheduler.app.options import Options
from kscheduler.app.service import App, run

__all__ = ["App", "Options", "run"]
