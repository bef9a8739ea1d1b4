"""The log lines about pods: everything that attempts, queue and evictions log about a pod, in one place.

    lines       every line: its name, level and fields (docs/logs.md documents them, and a test compares)
    pod_log     `PodLog`, with a method per thing that happens to a pod
    recent_attempts  rings of the last attempts and preemptions, kept whether anything is logged or not
    repeated_errors  errors that repeat: one line for many pods

On the hot path, callers check `verbose` before they call a method, so that a quiet log costs one comparison per pod.
"""

from kscheduler.scheduling.pod_log.pod_log import PodLog

__all__ = ["PodLog"]
