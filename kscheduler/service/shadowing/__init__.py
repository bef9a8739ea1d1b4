"""`kscheduler shadow`: follows a live cluster and says how it would have decided. Reads only.

    options    what is followed, where is answered
    connected  clients that cannot write, informers, the follower
    http_app   HTTP: health, metrics, /shadow
    service    start and end, signals, the log

Nothing of the service that writes is imported here (a contract of import-linter says so): no Binding, no eviction, no
Event, no Lease.
"""

from kscheduler.service.shadowing.options import ShadowOptions
from kscheduler.service.shadowing.service import ShadowApp, run_shadow

__all__ = ["ShadowApp", "ShadowOptions", "run_shadow"]
