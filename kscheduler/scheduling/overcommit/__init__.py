"""Nodes whose pods request more than the node has: noticed, reported and, where that is wanted, repaired.

A scheduler counts what it sees. Two schedulers that fill the same node in the same instant both see the room free, and
both binds succeed: the API server does not add up requests. The kubelet then rejects the second pod
(OutOfcpu and the like), or not, because it is away. Nothing here prevents that; `incidents` notices it within a second
of the watch event, says whose pods came last, and `repair` may send one of ours back that has not started.

    columns --excess--> incidents --reports--> log, Event, metrics
                            '----> repair --eviction API-->
"""
