"""The HTTP server beside the scheduler: health, metrics, configuration, version, pods that wait for Permit.

The problem: probes must be answered from the first moment, scrapes must not slow decisions, and a port that anyone in
the cluster can reach must not be a way to starve the process. The idea: plain functions tell health, `metrics` renders
in a thread, and a guard around each connection closes those that are too slow, too many or too large.

Limits: plain HTTP without authentication. TLS with kube-scheduler's delegated authentication and authorisation (token
and access reviews; only the three health paths open) has an issue of its own; until then bind the server to loopback or
fence the port with a NetworkPolicy, for `/metrics`, `/configz` and the verbose health texts tell about the cluster and
anyone may `DELETE /metrics`. What decides about pods (`waiting_pods`) is shut until a token for it is configured.
"""

from kscheduler.server.connections import Limits
from kscheduler.server.health import Check, Health, ProgressCheck
from kscheduler.server.routes import Endpoints
from kscheduler.server.server import Server, is_loopback
from kscheduler.server.waiting_pods import TokenFile, WaitingPodsEndpoint

__all__ = [
    "Check",
    "Endpoints",
    "Health",
    "Limits",
    "ProgressCheck",
    "Server",
    "TokenFile",
    "WaitingPodsEndpoint",
    "is_loopback",
]
