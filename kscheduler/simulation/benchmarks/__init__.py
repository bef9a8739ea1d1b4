"""Benchmarks in process: scheduler_perf's scenarios as data, played against the real parts of a scheduler.

    template    objects with placeholders, checked when they are declared
    scenario    what is done to a cluster, in order: typed, validated, made smaller on demand
    catalogue   the scenarios: scheduler_perf's at their 5,000-node sizes, and our own
    service     queue, cache, handlers, cycle, failures, preemption: the service's assembly
    cluster     who stands in for API server, controllers and kubelets; it answers at once
    player      a scenario, played and measured
    apart       each scenario in a process of its own
    figures     what comes out, as text and JSON

What is not measured is the wire: requests, the watch's decoding, Events beyond their being recorded.
"""
