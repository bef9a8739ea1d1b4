"""The contract between the scheduler and its plugins.

A leaf that plugins and runtime both import and that imports neither. The words are kube-scheduler's: `Status`,
`PodInfo`, `NodeInfo`, `CycleState`, `ClusterEvent`, `Diagnosis`, the extension points. What differs is the shape of a
rule: nodes live in the columns of a `NodeTable`, and a plugin judges many rows at once.

    plugin, per_node        the extension points; the same for a function that looks at one node
    registry, handle        how a plugin is found by name, and what it is built with
    status, events          what an extension point answers; what may let a parked pod through
    cycle_state, dry_run    what a plugin keeps within a cycle, and may ask of it in PostFilter
    standing_gate           a PreEnqueue plugin that names the pods it may let in
    plugin_contract         the checks of a plugin's shape
    plugin_results          the checks of its results
    plugin_listener         what hears of its failures; `plugin_time` how long it may take
    decision_time           the decision under way, and the end of its time
    pods_to_activate        the pods that a plugin wants to be tried next

    pods, nodes             what plugins read: a pod worked out once, the nodes in columns
    reasons                 why nodes were rejected
    cluster                 what else a `Handle` gives access to: counts, volumes, services and controllers, preemption
    rules                   rules that several plugins share; the contract itself needs none of them
"""
