"""The API server over HTTP: paths, verbs, watches, discovery, tables, and faults on purpose."""

from kscheduler.simulation.apiserver.server import EmbeddedAPIServer

__all__ = ["EmbeddedAPIServer"]
