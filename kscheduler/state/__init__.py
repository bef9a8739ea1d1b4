"""What the scheduler knows: cache, queue, waiting pods. Pure state: no I/O, no await, no clock of its own.

    cache          the nodes and the pods on them, as the next decision must see them; it joins the next three
    topology       which pods are where, counted ahead of time
    storage        volumes and claims, and what pods on nodes use of them
    nominations    pods that are expected on a node
    queue          pods that wait, in which order they are tried, and which events wake them
    holding        pods that have a node and are not bound yet
    row_check      whether what a row shows is what its pods take

Every method is synchronous, so under asyncio each is atomic and there is nothing to lock. Time comes in as an argument.
"""
