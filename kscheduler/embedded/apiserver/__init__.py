"""The API server over HTTP: paths, verbs, watches, discovery, tables, and injected faults."""

from kscheduler.embedded.apiserver.server import EmbeddedAPIServer

__all__ = ["EmbeddedAPIServer"]
