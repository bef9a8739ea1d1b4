"""The scheduler as a library: a cluster as a value, questions as methods, answers as rows.

    from kscheduler import Cluster, make_node, make_pod

    cluster = Cluster.of([make_node("a"), make_node("b")])
    result = cluster.schedule([make_pod(f"web-{number}", requests={"cpu": "500m"}) for number in range(10)])
    print(result)
    result.cluster.utilisation().to_pandas()

Nothing here decides: `schedule`, `simulate` and `drain` play what `kscheduler simulate` plays, `explain` and
`compact` answer as the commands of these names do. docs/library.md is for readers who know pandas and notebooks, and
not this project.

    cluster             `Cluster`, and the results that hold the cluster as it is then
    questions           what its methods ask of the layers below
    results, table      pods, explanations and profiles, as text, HTML, dicts and data frames
    node_rows           nodes, pods and utilisation as rows
    given, configured   what a caller gives: objects, files, configurations, plugins
    made_objects        what an API server would say against the objects of `make_node` and `make_pod`
    live                a cluster that is read from its API server
    cluster_error       the one error that all of this raises
"""

from kscheduler.library.cluster import Cluster, ScheduleResult, SimulationResult
from kscheduler.library.cluster_error import ClusterError
from kscheduler.library.node_rows import FragmentationRow, NodeRow, NodeUtilisation, PodRow
from kscheduler.library.results import CompactResult, ExplainResult, PodResult, ProfileNodes
from kscheduler.library.table import Table

__all__ = [
    "Cluster",
    "ClusterError",
    "CompactResult",
    "ExplainResult",
    "FragmentationRow",
    "NodeRow",
    "NodeUtilisation",
    "PodResult",
    "PodRow",
    "ProfileNodes",
    "ScheduleResult",
    "SimulationResult",
    "Table",
]
