"""The scheduler's HTTP server: health, metrics, configuration, version, pods that wait for Permit.

The problem: probes must be answered from the start, scrapes must not slow decisions, and a port that everybody in the
cluster can reach must not be a way to starve the process. The idea: health checks are plain functions, `metrics`
renders in a thread, and a guard on each connection closes those that are too slow, too many or too large.

Limits: plain HTTP without authentication; TLS with kube-scheduler's delegated authentication and authorisation (token
and access reviews, only the three health paths open) is not built yet. The default address is kube-scheduler's,
0.0.0.0, which the kubelet's probes need, and the service logs at its start what is open to whom (`access`): health,
`/metrics` and `/version` to everybody who can reach the port, which a NetworkPolicy can restrict; `/configz` and names
of objects to this machine and to the token of `--permit-token-file`; `/waiting-pods`, which decides about pods, to that
token only. Everything else is read-only: kube-scheduler's `DELETE /metrics` answers 405, since an alarm cannot rely on
a counter that anybody can reset.
"""

from kscheduler.server.access import GUARDED, OPEN, TOKEN_ONLY, Access, is_loopback
from kscheduler.server.connections import Limits
from kscheduler.server.health import Check, Health, ProgressCheck
from kscheduler.server.routes import Endpoints
from kscheduler.server.server import Server
from kscheduler.server.waiting_pods import PermitTokenFile, WaitingPodsEndpoint

__all__ = [
    "GUARDED",
    "OPEN",
    "TOKEN_ONLY",
    "Access",
    "Check",
    "Endpoints",
    "Health",
    "Limits",
    "PermitTokenFile",
    "ProgressCheck",
    "Server",
    "WaitingPodsEndpoint",
    "is_loopback",
]
