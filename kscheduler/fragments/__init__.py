"""How much of what is free no pod like those that run or wait could use, and what they lack there.

    class_devices     the devices of each class on each node, as columns that are brought up to date in slices
    typical_requests  what pods request, devices of claims included, and which requests are typical
    unusable          what is free on each node against the typical requests
    fragmentation     the answer, by resource

It is one computation for `kscheduler compact`, the metrics and `kscheduler replay --config`. It is a generator that
pauses often: a service runs it between decisions, a command to its end (`finished`).
"""
