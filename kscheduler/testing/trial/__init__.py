"""What a plugin does wrong, found by trying it on random clusters: `kscheduler plugin check`.

    clusters   random nodes and pods, made of the words that the plugin's source mentions
    tried_plugin  one plugin, called: its result for each node, or its failure
    steps      Reserve to PostBind, one after another
    reads      which parts of pods and nodes it reads
    refreshing  its `refresh`
    findings   what is compared: the same question twice, other nodes left out, pods that are alike

A finding has an example that shows it. That nothing was found proves nothing: a plugin is code.
"""

from kscheduler.testing.trial.findings import Finding, Severity, Trial

__all__ = ["Finding", "Severity", "Trial"]
