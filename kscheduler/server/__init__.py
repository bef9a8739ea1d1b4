"""The HTTP server beside the scheduler: health, metrics, configuration, version, pods that wait for Permit.

The problem: probes must be answered from the first moment, scrapes must not slow decisions, and a port that anyone in
the cluster can reach must not be a way to starve the process. The idea: plain functions tell health, `metrics` renders
in a thread, and a guard around each connection closes those that are too slow, too many or too large.

Limits: plain HTTP without authentication. TLS with kube-scheduler's delegated authentication and authorisation (token
and access reviews; only the three health paths open) has an issue of its own. Until then the default address is
kube-scheduler's, 0.0.0.0, which the kubelet's probes need, and the service says at its start what is open to whom
(`access`): health, `/metrics` and `/version` to whoever reaches the port, which a NetworkPolicy can fence; `/configz`
and names of objects to this machine and to the token of `--permit-token-file`; `/waiting-pods`, which decides about
pods, to that token alone. Nothing but that can be written: kube-scheduler's `DELETE /metrics` answers 405, for a
counter that anybody can set back is no alarm.
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
