"""The composition root: `parts` builds, `surface` serves HTTP, `service` starts and stops.

A program with its own plugins calls `run(Options(...))`.
"""

from kscheduler.app.options import Options
from kscheduler.app.service import App, run

__all__ = ["App", "Options", "run"]
