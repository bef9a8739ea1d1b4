"""PodTopologySpread: matching pods shall spread evenly over zones, hosts or any other label's values.

`plugin` has the extension points. Constraints come from the pod or, where it has none, from the profile with a selector
that `default_selector` deduces (`deduced` keeps them). `domains` counts pods per value of a topology key, `filtering`
and `scoring` judge rows by these counts, and `hints` tell which events may help a pod that was turned down.
"""

from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
