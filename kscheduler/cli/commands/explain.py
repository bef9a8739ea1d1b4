"""`kscheduler explain`: where a pod goes and why, in a live cluster or in a cluster from a file.

    explain POD                      a pod of the live cluster
    explain podgroup/NAME            a pod group, by one of its members
    explain -f pod.yaml              a new pod in the live cluster
    explain --from FILE              scenarios, or each pending pod of the objects that kubectl has printed
    explain --from FILE POD          a pod of those objects
    explain --from FILE -f pod.yaml  a new pod in the cluster of those objects

docs/explain.md describes output, files and exit codes.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable

from kscheduler.cli.asked_cluster import FAILED, refusing
from kscheduler.cli.asking_flags import (
    add_asked_cluster,
    by_the_servers_version,
    refuse_standard_input_twice,
    serving_of,
)
from kscheduler.cli.parser import AppendText, StoreText, text
from kscheduler.client.access.connection import current_namespace, load_connection
from kscheduler.client.rest import APIClient
from kscheduler.explain.answering import Answer, answered
from kscheduler.explain.as_json import json_line, schema_text
from kscheduler.explain.questions.from_files import Asked, questions_from, read_new_pods
from kscheduler.explain.questions.live import live_question, new_pod_questions
from kscheduler.explain.questions.named_group import group_in, member_in_cluster
from kscheduler.explain.questions.question import GroupQuestion, Question
from kscheduler.explain.questions.serving import Serving
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.explain.text.layout import Style, style_of
from kscheduler.explain.text.printable import printable
from kscheduler.simulation.objects.defaults.pods import default_new_pod
from kscheduler.whatif.decide import Decision
from kscheduler.whatif.decide_group import GroupDecision
from kscheduler.whatif.scenario import ScenarioError

_EXPLAINED = 0
_POD_PREFIXES = ("pod", "pods", "po")

_DESCRIPTION = """\
Decide where a pod goes, with the scheduler's own rules, and say why: which nodes fit, the points of each plugin, which
plugins rejected the other nodes and what exactly was wrong with them. Nothing is written to any cluster, and {}."""
_EPILOG = """\
Exit codes: 0 explained, whether the pod fits or not; 1 the API server did not answer, has no such pod, or the pod could
not be judged (an unknown scheduler name in a scenario, a plugin that failed); 2 flags or files that cannot be used."""


Answered = tuple[Question | GroupQuestion, Decision | GroupDecision]


def add_parser(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str = "explain",
    who: str = "no service has to run",
) -> argparse.ArgumentParser:
    """Add the subcommand; kubectl has another name for it. `who` decides: the end of the description."""
    parser = subparsers.add_parser(
        name,
        help="say where a pod goes and why",
        description=_DESCRIPTION.format(who),
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    _add_question(parser.add_argument_group("what is asked"))
    add_asked_cluster(parser)
    answer = parser.add_argument_group("the answer")
    answer.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: an object per line")
    answer.add_argument("--schema", action="store_true", help="print the JSON Schema of -o json and end")
    answer.add_argument(
        "--against",
        action=StoreText,
        metavar="NODE",
        help="why not this node: beside the one that it is on or gets",
    )
    answer.add_argument(
        "--no-suggestions",
        action="store_true",
        help="for a pod without a node: do not look for the changes that would make it fit",
    )
    return parser


def _add_question(question: "argparse._ArgumentGroup") -> None:
    question.add_argument(
        "pod",
        nargs="?",
        type=text,
        metavar="POD",
        help="NAMESPACE/POD, or POD in the namespace of -n; podgroup/NAME (pg/NAME) asks about a pod group by one of "
        "its members, one that waits if there is any",
    )
    question.add_argument(
        "-f",
        "--filename",
        action=AppendText,
        metavar="FILE",
        default=[],
        help="a pod that does not exist yet, from a manifest: a Pod, or a Deployment, StatefulSet, DaemonSet, Job ... "
        "whose first pod is explained; a file, a folder or a pattern, may be given more than once; - is standard input",
    )
    question.add_argument(
        "--from",
        dest="source",
        action=AppendText,
        metavar="FILE",
        help="no live cluster: scenarios (a JSON object per line), or objects as `kubectl get -o yaml` or -o json "
        "prints them, of which each pending pod is explained unless one is named; gzipped or not; a file, a folder or "
        "a pattern, more than once for one cluster; - is standard input",
    )
    question.add_argument(
        "--ask-extenders",
        action="store_true",
        help="ask the HTTP extenders of --config what the service would ask them (filter, prioritize, preempt; never "
        "bind); without it the answer says which have a say",
    )
    question.add_argument(
        "-n", "--namespace", action=StoreText, metavar="NAME", default="", help="default: that of the context"
    )


def run(args: argparse.Namespace) -> int:
    """Print the answers and return the exit code; a problem is a line on standard error."""
    return refusing(_run, args)


def _run(args: argparse.Namespace) -> int:
    if args.schema:
        sys.stdout.write(schema_text())
        return _EXPLAINED
    check(args)
    served = serving_of(args)
    if args.source is None:
        return _print(asyncio.run(_ask_cluster(args, served)), args)
    group = group_in(args.pod or "")
    namespace, name = (args.namespace or "default", "") if group else pod_of(args, "default")
    selection = Asked(
        namespace,
        name,
        tuple(args.filename),
        group=group,
        against=args.against or "",
        is_about_a_cluster=bool(args.pod or args.filename or args.config or args.scheduler_name or args.namespace)
        or bool(args.plugin),
    )
    questions = questions_from(args.source, selection, served, default_new_pod)
    if args.ask_extenders:
        return _print(asyncio.run(_answered(questions, None, args)), args)
    return _print(((question, question.answer()) for question in questions), args)


def check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot be combined. Raises `ScenarioError`."""
    if not (args.pod or args.source or args.filename):
        raise ScenarioError(
            "name a pod (NAMESPACE/POD), a manifest of one (-f FILE) or a file to look at (--from FILE)"
        )
    if args.pod and args.filename:
        raise ScenarioError("a POD exists and -f FILE is one that does not: give one of them")
    if args.source is not None and (args.kubeconfig or args.master or args.context):
        raise ScenarioError("--kubeconfig, --context and --master go with a live cluster; --from FILE brings its own")
    refuse_standard_input_twice(args)
    if args.config and args.scheduler_name is not None:
        raise ScenarioError("--scheduler-name goes without --config: a file names its profiles")


def pod_of(args: argparse.Namespace, default_namespace: str) -> tuple[str, str]:
    """Namespace and name of the pod; the name is empty if no pod was named. Raises `ScenarioError`."""
    argument: str = args.pod or ""
    prefix, slash, name = argument.partition("/")
    if not slash:
        return args.namespace or default_namespace, argument
    if not (prefix and name) or "/" in name:
        raise ScenarioError(f"{argument!r} is not NAMESPACE/POD, such as default/web-0")
    if prefix in _POD_PREFIXES:  # as in kubectl; a namespace of that name can be given with -n
        return args.namespace or default_namespace, name
    if args.namespace and prefix != args.namespace:
        raise ScenarioError(f"{argument!r} names another namespace than -n {args.namespace}")
    return args.namespace or prefix, name


async def _ask_cluster(args: argparse.Namespace, served: Serving) -> list[Answered]:
    address = {"master": args.master, "kubeconfig": args.kubeconfig, "context": args.context}
    prefix, slash, _ = (args.pod or "").partition("/")
    group = group_in(args.pod or "")
    is_bare = bool(group) or not slash or prefix in _POD_PREFIXES
    namespace = args.namespace or (current_namespace(**address) if is_bare else "default")
    namespace, name = (namespace, "") if group else pod_of(args, namespace)
    if args.filename:
        news, besides = read_new_pods(args.filename, namespace, default_new_pod)
    async with APIClient(await load_connection(**address)) as client:
        served = await by_the_servers_version(client, args, served)
        if args.filename:
            return await _answered(
                await new_pod_questions(client, news, besides, served, default_new_pod), client, args
            )
        name = name or (await member_in_cluster(client, namespace, group)).metadata.name
        question = await live_question(client, namespace, name, served, of_group=bool(group))
        return await _answered([question], client, args)


async def _answered(
    questions: Iterable[Question | GroupQuestion], client: APIClient | None, args: argparse.Namespace
) -> list[Answered]:
    decides = None
    if args.ask_extenders:
        from kscheduler.explain.questions.asking_extenders import DecidingWithExtenders  # rarely needed, and large

        decides = DecidingWithExtenders(client)
    return [(question, await question.answer_asking(client, decides)) for question in questions]


def _print(answers: Iterable[Answered], args: argparse.Namespace) -> int:
    output: str = args.output
    style, kubectl = style_of(sys.stdout), KubectlFlags.of(args)
    failed, printed_notes = False, set[str]()
    for position, (question, decision) in enumerate(answers):
        answer = answered(question, decision, against_node=args.against or "", with_suggestions=not args.no_suggestions)
        for note in answer.notes:
            if note not in printed_notes:
                print(f"kscheduler: {printable(note)}", file=sys.stderr)
                printed_notes.add(note)
        failed |= bool(decision.error)
        if output == "json":
            print(json_line(kubectl.in_explanation(answer.as_tree())))
        else:
            print(kubectl.in_text(_text(answer, style, is_first=position == 0)))
    sys.stdout.flush()
    return FAILED if failed else _EXPLAINED


def _text(answer: Answer, style: Style, *, is_first: bool) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    shown = answer.as_text(style).encode(encoding, errors="backslashreplace").decode(encoding)
    return shown if is_first or isinstance(answer.decision, GroupDecision) else f"\n{shown}"
