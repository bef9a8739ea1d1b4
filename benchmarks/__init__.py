"""Programs for developers that measure; what they print is for people, and none of it is shipped.

    compare, plots, runs        `kscheduler bench` over and over: against the baseline, against the size of the cluster
    churn                       a week of an autoscaled cluster in minutes: memory, tables, loop lag
    real                        on a real API server, beside kube-scheduler and a client that decides nothing
    scale                       100,000 nodes and 1,000,000 pods in one process
    preemption, hopeless        what preemptions cost, and pods that fit nowhere
    counters_memory, decode,    single parts: counters, the first sync, a scrape, a small POST
    exposition, wire

What `kscheduler bench` itself plays is in the wheel, in `kscheduler.bench`: scenarios as data and the
player that measures them. The package knows nothing of this folder.
"""
