"""PodTopologySpread: matching pods should spread evenly over zones, hosts or the values of any other label.

`plugin` has the extension points. Constraints come from the pod or, where it has none, from the profile with a selector
that `default_selector` deduces (`deduced` keeps them). `domains` counts pods per value of a topology key, `filtering`
and `scoring` judge rows by these counts, and `hints` decides which events may help a pod that was rejected.
"""

from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
