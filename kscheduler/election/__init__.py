"""Leader election on a Lease: of several replicas, one schedules.

The problem: two schedulers give the same room away twice, and none schedules nothing; the API server cannot tell a
process that is dead from one that is slow. The idea: pure rules about what was seen and when, by each process's own
clock (`rules`, where the argument for safety is); a fence that every write passes; a thread that ends a process whose
event loop hangs. A process that has lost its lease ends: its successor starts from the API server's truth.

    lease, rules                what is written and what is decided; without I/O
    lease_client, election      requests and the watch; the loop
    fence, watchdog, boot_time  no write after the end of the lease, whatever hangs
    announcements               log lines and Events

Limits: as with client-go, who deletes the Lease by hand may have two leaders for some seconds, and a request that was
sent cannot be called back (`fence`). Coordinated leader election (alpha upstream) is not built.
"""

from kscheduler.election.boot_time import boot_time
from kscheduler.election.election import Election, ElectionStatistics, LeaseLostError
from kscheduler.election.fence import Fence
from kscheduler.election.rules import Elector, Role, Timing

__all__ = ["Election", "ElectionStatistics", "Elector", "Fence", "LeaseLostError", "Role", "Timing", "boot_time"]
