"""A cluster in memory, for what runs a scheduler without an API server: what-if, benchmarks, replay, shadow, tests.

    cluster   objects by kind, changes that reach the handlers, and the API server's part of each request, as `Ports`
    claims    the API server's part of claims to devices
    at_work   the scheduler's workers over such a cluster, in a clock that may be virtual

Each user is a policy over `InMemoryCluster`: it overrides what differs with it (when the watch shows a write, what
becomes of a victim) and adds what it measures. Faults are put into its hooks.
"""
