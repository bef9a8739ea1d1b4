"""InterPodAffinity: pods that want to be near others, or far from them, by topology domain.

`plugin` has the extension points, `domains` counts pods per value of a topology key, and `hints` decides which events
may help a pod that was rejected.
"""

from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
