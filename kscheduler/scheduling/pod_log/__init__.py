"""The story of each pod in the log: a fold over what attempts, queue and evictions know, in one place.

    lines       every line: its name, its level, its fields (docs/logs.md tells them to users, and a test compares)
    pod_log     `PodLog`, with a method per thing that happens to a pod
    decision    what a cycle's record says of nodes and points, from -v 5
    together    pods that are turned down with their class: one line for many

Whoever calls a method on the hot path asks `verbose` first, so that a quiet log costs a comparison per pod.
"""

from kscheduler.scheduling.pod_log.pod_log import PodLog

__all__ = ["PodLog"]
