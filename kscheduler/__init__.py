"""kscheduler: a Kubernetes scheduler that decides by kube-scheduler's rules, explains it, and takes your policies.

What a policy of your own needs most is imported from here:

    from kscheduler import plugin

    @plugin("PreferCheap")
    def score(pod, node):
        return 100 if node.labels.get("tier") == "cheap" else 0

The scheduler as a library, for scripts and notebooks (docs/library.md):

    from kscheduler import Cluster, make_node, make_pod

    print(Cluster.of([make_node("a")]).schedule([make_pod("web")]))

A name is imported when it is first asked for (PEP 562). The command line imports this package before anything else, and
must not load numpy and the plugin framework for `kscheduler --version`.
"""

__version__ = "0.1.0"

# Type checkers take this name for true. `typing` has the same constant, but importing it costs each start some time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kscheduler.framework.cycle_state import CycleState
    from kscheduler.framework.handle import Handle
    from kscheduler.framework.nodes.node_info import NodeInfo
    from kscheduler.framework.nodes.node_table import NodeTable
    from kscheduler.framework.per_node import plugin
    from kscheduler.framework.plugin import SKIPPED, PermitResult, Plugin, PreFilterResult, RefreshError, Source
    from kscheduler.framework.pods.pod_info import PodInfo
    from kscheduler.framework.registry import Registry
    from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable
    from kscheduler.library import Cluster, ClusterError
    from kscheduler.testing import make_node, make_pod

__all__ = [
    "SKIP",
    "SKIPPED",
    "SUCCESS",
    "Cluster",
    "ClusterError",
    "Code",
    "CycleState",
    "Handle",
    "NodeInfo",
    "NodeTable",
    "PermitResult",
    "Plugin",
    "PodInfo",
    "PreFilterResult",
    "RefreshError",
    "Registry",
    "Source",
    "Status",
    "__version__",
    "error",
    "make_node",
    "make_pod",
    "plugin",
    "unresolvable",
    "unschedulable",
]

# The same names by the module that has them.
_HOMES = {
    "framework.cycle_state": ("CycleState",),
    "framework.handle": ("Handle",),
    "framework.nodes.node_info": ("NodeInfo",),
    "framework.nodes.node_table": ("NodeTable",),
    "framework.per_node": ("plugin",),
    "framework.plugin": ("SKIPPED", "PermitResult", "Plugin", "PreFilterResult", "RefreshError", "Source"),
    "framework.pods.pod_info": ("PodInfo",),
    "framework.registry": ("Registry",),
    "framework.status": ("SKIP", "SUCCESS", "Code", "Status", "error", "unresolvable", "unschedulable"),
    "library": ("Cluster", "ClusterError"),
    "testing": ("make_node", "make_pod"),
}

# Hidden from type checkers, which would else believe that every name can be imported from here.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(f"kscheduler.{home}"), name)
                globals()[name] = value  # the next one who asks finds it without this function
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
