"""The scheduler's state: cache, queue, waiting pods. Pure state: no I/O, no await, no clock of its own.

    cache             the nodes and the pods on them, as the next decision must see them; it joins the next four
    topology          counts of pods per row, kept up to date
    storage           volumes and claims, and their use by pods on nodes
    devices           which devices are in use, and by which claims
    nominator         pods that are expected on a node
    pod_groups        groups, their members and what they lack; `group_apis` tells the APIs apart
    queue             pods that wait, in which order they are tried, and which events wake them
    waiting_pods      pods that have a node and wait at Permit
    pods_in_pre_bind  pods whose Binding has not been sent: they can still be cancelled
    row_check         compares a row's columns with the requests of its pods

Every method is synchronous, so under asyncio each is atomic and no locks are needed. Time is passed as an argument.
"""
