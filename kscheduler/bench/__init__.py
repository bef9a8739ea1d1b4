"""What `kscheduler bench` plays: scheduler_perf's scenarios as data, against the real parts of a scheduler.

    template    objects with placeholders, checked when they are declared
    scenario    a list of typed operations on a cluster, validated, resizable
    catalogue   the scenarios: scheduler_perf's at their 5,000-node sizes, and our own
    cluster     the service's assembly, and a stand-in for API server, controllers and kubelets that answers at once
    player      plays and measures a scenario
    calls       what one more pod calls, as numbers, text and JSON; call_counts: whose calls count
    attempt_clock   time that passes by attempts, for counts that repeat
    allocation  claims that are in use before pods come
    apart       runs each scenario in a process of its own
    upstream    scheduler_perf's own files as scenarios
    figures     the results of a measurement, as text and JSON

The wire is not measured: requests, decoding of watches, sending of Events.
"""
