"""The contract between the scheduler and its plugins.

A leaf that plugins and runtime both import and that imports neither. The words are kube-scheduler's: `Status`,
`PodInfo`, `NodeInfo`, `CycleState`, `ClusterEvent`, `Diagnosis`, the extension points. What differs is the shape of a
rule: nodes live in the columns of a `NodeTable`, and a plugin judges many rows at once.
"""
