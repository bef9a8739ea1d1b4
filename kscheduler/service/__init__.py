"""The composition root: `parts` builds, `http_app` serves HTTP, `service` starts and stops.

A program with its own plugins calls `run(Options(...))`; with `source_of` its configuration file is followed.
"""

from kscheduler.service.config_file import ConfigSource, source_of
from kscheduler.service.options import Options
from kscheduler.service.service import App, run

__all__ = ["App", "ConfigSource", "Options", "run", "source_of"]
