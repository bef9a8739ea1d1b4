"""Leader election on a Lease: of several replicas, one schedules.

The problem: two schedulers give the same capacity away twice, and with none nothing is scheduled; the API server
cannot tell a process that is dead from one that is slow. The idea: pure rules about what was seen and when, by each
process's own clock (`rules`, where the argument for safety is); a fence that every write passes; a thread that ends a
process whose event loop hangs. A process that has lost its lease drops all that it has begun and follows
(`service.terms`), or ends.

    lease, rules                what is written and what is decided; without I/O
    lease_client, election      requests and the watch; the loop
    fence, watchdog             no write after the end of the lease, whatever hangs
    announcements               log lines and Events

The walk of a lease, from `service.leadership`, which builds fence, election and a connection of its own:

    a follower      `Election.lead`: a watch of the one Lease; when it is free `Elector.step` answers with a write that
                    names the version it replaces: of two that try, one gets a 409
    then leads      `informers.catch_up`: the store holds all that was written before; then the workers
    each renewal    `Election.keep`; each success moves `Fence.open_until` and `Watchdog.expect_before`
    each write      `check_may_leave` of the transport, just before it leaves (through a proxy, before connecting)
    not renewed     `LeaseLostError` ends all services without draining; then a new term (`Elector.next_term`) with
                    the stores as they are, or exit code 1 where the process was stopped or something does not end
    SIGTERM         workers drain, conditions are flushed, then `Election.release`

Limits: as with client-go, deleting the Lease by hand may lead to two leaders for some seconds, and a request that was
sent cannot be called back (`fence`). Coordinated leader election (alpha upstream) is not built.
"""

from kscheduler.election.election import Election, ElectionStatistics, LeaseLostError
from kscheduler.election.fence import Fence, boot_time
from kscheduler.election.rules import Elector, Role, Timing

__all__ = ["Election", "ElectionStatistics", "Elector", "Fence", "LeaseLostError", "Role", "Timing", "boot_time"]
