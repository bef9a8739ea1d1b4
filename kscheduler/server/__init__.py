"""The scheduler's HTTP server: health, metrics, configuration, pods that wait for Permit, pages for people.

The problem: probes must be answered from the start, scrapes must not slow decisions, a port that everybody in the
cluster can reach must not be a way to starve the process, and what it shows is not for everybody. The idea: HTTPS
with kube-scheduler's delegated authentication and authorisation (`login`), only the health checks open; each
connection has a slot, a turn and a time limit for everything (`connections`, `connection_rate_limiter`, `listener`);
health checks are plain functions, and `metrics` renders in a thread.

Three ports, of which only the first is on by default: HTTPS with a login; plain HTTP for health and metrics
(`--metrics-bind-address`); plain HTTP for what only reads on this machine (`--insecure-port`), for development. All
but waiting pods and the verbosity is read-only: kube-scheduler's `DELETE /metrics` answers 405, since an alarm cannot
rely on a counter that anybody can reset.

Limits: HTTP/1.1 only. A client certificate of an unknown authority ends the handshake, where Go's server would answer
401.
"""

from kscheduler.server.access import Access, DelegatedAccess, LoopbackAccess, OpenAccess
from kscheduler.server.connections import Limits
from kscheduler.server.health import Check, Health, ProgressCheck
from kscheduler.server.listener import Address
from kscheduler.server.routes import Endpoints, Offer, ServedPage
from kscheduler.server.server import Port, Server, samples_of
from kscheduler.server.serving import HTTPServing
from kscheduler.server.waiting_pods import PermitTokenFile, WaitingPodsEndpoint

__all__ = [
    "Access",
    "Address",
    "Check",
    "DelegatedAccess",
    "Endpoints",
    "HTTPServing",
    "Health",
    "Limits",
    "LoopbackAccess",
    "Offer",
    "OpenAccess",
    "PermitTokenFile",
    "Port",
    "ProgressCheck",
    "ServedPage",
    "Server",
    "WaitingPodsEndpoint",
    "samples_of",
]
