"""The flags of `kscheduler explain` and `kubectl kscheduler why`, and what they name: no more than that is read here.

The second is answered by the running service as a rule, and then the scheduler's rules need not be imported.
"""

import argparse
from typing import TYPE_CHECKING

from kscheduler.api.groups import GROUP_PREFIXES
from kscheduler.cli.cluster_flags import add_cluster_flags, refuse_standard_input_twice, refuse_two_clusters
from kscheduler.cli.parser import AppendText, StoreText, text
from kscheduler.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from kscheduler.scenario.object_files import Document

POD_PREFIXES = ("pod", "pods", "po")
# By what stands before the slash the kind of what makes pods, in kubectl's words.
WORKLOAD_PREFIXES = {
    prefix: kind
    for kind, short in (
        ("Deployment", "deploy"),
        ("ReplicaSet", "rs"),
        ("StatefulSet", "sts"),
        ("DaemonSet", "ds"),
        ("ReplicationController", "rc"),
        ("Job", "job"),
        ("CronJob", "cj"),
    )
    for prefix in (short, kind.lower(), f"{kind.lower()}s")
}
_UNDERSTOOD = (
    "NAMESPACE/POD, pod/NAME, podgroup/NAME, or deploy/NAME, rs/, sts/, ds/, rc/, job/, cj/ for one of its pods"
)


_DESCRIPTION = """\
Decide where a pod goes, with the scheduler's own rules, and say why: which nodes fit, the points of each plugin, which
plugins rejected the other nodes and what exactly was wrong with them. Nothing is written to any cluster, and {}."""
_EPILOG = """\
Exit codes: 0 explained, whether the pod fits or not; 1 the API server did not answer, has no such pod, or the pod could
not be judged (an unknown scheduler name in a scenario, a plugin that failed); 2 flags or files that cannot be used."""


def add_parser(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str = "explain",
    who: str = "no service has to run",
) -> argparse.ArgumentParser:
    """Add the subcommand; kubectl has another name for it. `who` decides: the end of the description."""
    parser = subparsers.add_parser(
        name,
        help="explain where a pod goes, and why",
        description=_DESCRIPTION.format(who),
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    _add_query(parser.add_argument_group("what is asked"))
    add_cluster_flags(parser)
    answer = parser.add_argument_group("the answer")
    answer.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: an object per line")
    answer.add_argument("--schema", action="store_true", help="print the JSON Schema of -o json and exit")
    answer.add_argument(
        "--against",
        action=StoreText,
        metavar="NODE",
        help="compare this node with the one that the pod is on or would get",
    )
    answer.add_argument(
        "--no-suggestions",
        action="store_true",
        help="for a pod without a node: do not look for the changes that would make it fit",
    )
    parser.set_defaults(new_objects=None)  # of `new_objects_of`
    return parser


def _add_query(query: "argparse._ArgumentGroup") -> None:
    query.add_argument(
        "pod",
        nargs="?",
        type=text,
        metavar="POD",
        help="NAMESPACE/POD, or POD in the namespace of -n; podgroup/NAME (pg/NAME) asks about a pod group by "
        "one of its members, deploy/NAME (rs, sts, ds, rc, job, cj) about a pod of the workload; one that waits, "
        "if there is any",
    )
    query.add_argument(
        "-f",
        "--filename",
        action=AppendText,
        metavar="FILE",
        default=[],
        help="a pod that does not exist yet, from a manifest: a Pod, or a Deployment, StatefulSet, DaemonSet, Job ... "
        "whose first pod is explained, or a pod group with its members; a file, a folder or a pattern, may be given "
        "more than once; - is standard input",
    )
    query.add_argument(
        "--from",
        dest="source",
        action=AppendText,
        metavar="FILE",
        help="not a live cluster: scenarios (a JSON object per line), or objects as `kubectl get -o yaml` or -o json "
        "prints them, of which each pending pod is explained unless one is named; gzipped or not; a file, a folder or "
        "a pattern, more than once for one cluster; - is standard input",
    )
    query.add_argument(
        "--ask-extenders",
        action="store_true",
        help="call the HTTP extenders of --config as the service would (filter, prioritize, preempt; never "
        "bind); without it the output names those that would take part",
    )
    query.add_argument(
        "-n", "--namespace", action=StoreText, metavar="NAME", default="", help="default: that of the context"
    )


def check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot be combined. Raises `ScenarioError`."""
    if not (args.pod or args.source or args.filename):
        raise ScenarioError(
            "name a pod (NAMESPACE/POD), a manifest of one (-f FILE) or a file to look at (--from FILE)"
        )
    if args.pod and args.filename:
        raise ScenarioError("a POD exists and -f FILE is one that does not: give one of them")
    refuse_two_clusters(args)
    refuse_standard_input_twice(args)
    if args.config and args.scheduler_name is not None:
        raise ScenarioError("--scheduler-name goes without --config: a file names its profiles")


def new_objects_of(args: argparse.Namespace) -> "tuple[list[Document], list[str]]":
    """What -f names, and what of it was not read. Raises `ScenarioError`.

    Read once: service and command need it alike, and standard input has it once.
    """
    from kscheduler.scenario.new_objects import read_new_objects  # most questions have no manifests

    if args.new_objects is None:
        args.new_objects = read_new_objects(args.filename)
    found: tuple[list[Document], list[str]] = args.new_objects
    return found


def pod_of(args: argparse.Namespace, default_namespace: str) -> tuple[str, str]:
    """Namespace and name of the pod; the name is empty if no pod was named. Raises `ScenarioError`."""
    argument: str = args.pod or ""
    prefix, slash, name = argument.partition("/")
    if not slash:
        return args.namespace or default_namespace, argument
    if not (prefix and name) or "/" in name:
        raise ScenarioError(f"{argument!r} is not NAMESPACE/POD, such as default/web-0")
    if _resource(prefix) in POD_PREFIXES:  # as in kubectl; a namespace of that name can be given with -n
        return args.namespace or default_namespace, name
    if args.namespace and prefix != args.namespace:
        raise ScenarioError(f"{argument!r} names another namespace than -n {args.namespace}; understood: {_UNDERSTOOD}")
    return args.namespace or prefix, name


def group_in(argument: str) -> str:
    """The NAME of `podgroup/NAME`; empty: the argument names a pod. Raises `ScenarioError` for `podgroup/` alone."""
    prefix, slash, name = argument.partition("/")
    if not slash or _resource(prefix) not in GROUP_PREFIXES:
        return ""
    if not name or "/" in name:
        raise ScenarioError(f"{argument!r} is not {prefix}/NAME: -n gives the namespace of a pod group")
    return name


def workload_in(argument: str) -> tuple[str, str] | None:
    """Kind and name of `deployment/NAME` and its like; `None`: the argument names none. Raises `ScenarioError`."""
    prefix, slash, name = argument.partition("/")
    kind = WORKLOAD_PREFIXES.get(_resource(prefix)) if slash else None
    if kind is None:
        return None
    if not name or "/" in name:
        raise ScenarioError(f"{argument!r} is not {prefix}/NAME: -n gives the namespace of a {kind}")
    return kind, name


def names_no_namespace(argument: str) -> bool:
    """Whether the namespace is that of -n or of the context."""
    prefix, slash, _ = argument.partition("/")
    return not slash or _resource(prefix) in (*POD_PREFIXES, *GROUP_PREFIXES, *WORKLOAD_PREFIXES)


def _resource(prefix: str) -> str:
    """`deployment` of `deployment.apps`, as `kubectl get -o name` prints it; kubectl takes any case."""
    return prefix.partition(".")[0].lower()
