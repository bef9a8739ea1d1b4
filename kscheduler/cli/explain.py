"""`kscheduler explain`: where a pod goes and why, from a file of scenarios or from a live cluster."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kscheduler.api.codec import UndecodableError
from kscheduler.cli.refusal import refuse
from kscheduler.client.connection import load_connection
from kscheduler.client.errors import ClientError, ConfigurationError
from kscheduler.client.rest import APIClient
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import LoadedConfig, load_file
from kscheduler.explain.as_json import decision_tree
from kscheduler.explain.as_text import Style, decision_text, style_of
from kscheduler.explain.live import LiveScenario, live_scenario
from kscheduler.explain.printable import printable
from kscheduler.whatif.decide import Decision, decide
from kscheduler.whatif.scenario import ScenarioError, read_scenarios

_FAILED, _BAD_INPUT, _BROKEN_PIPE = 1, 2, 141

_DESCRIPTION = """\
Decide where a pod goes, with the scheduler's own rules, and say why: which nodes fit, who gave how many points, who
turned the others down. Nothing is written to any cluster, and no service has to run."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "explain", help="say where a pod goes and why", description=_DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("pod", nargs="?", metavar="NAMESPACE/POD", help="a pod of the cluster that kubeconfig names")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="judge scenarios instead: a JSON object per line, gzipped or not; - is standard input",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: an object per line")
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="default: as kubectl finds it")
    parser.add_argument("--master", metavar="URL", default="", help="the API server, such as http://127.0.0.1:8001")
    parser.add_argument("--config", metavar="FILE", help="KubeSchedulerConfiguration; default: the default plugins")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the answers. 0: judged; 1: the cluster did not answer; 2: bad input, one line on standard error."""
    try:
        return _run(args)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (ScenarioError, ConfigError, ConfigurationError) as problem:
        return _complain(str(problem), _BAD_INPUT)
    except (ClientError, UndecodableError) as problem:
        return _complain(str(problem), _FAILED)


def _run(args: argparse.Namespace) -> int:
    if (args.pod is None) == (args.source is None):
        return _complain("name either a pod (NAMESPACE/POD) or a file of scenarios (--from FILE)", _BAD_INPUT)
    if args.source is not None:
        if args.config or args.kubeconfig or args.master:
            return _complain(
                "--config, --kubeconfig and --master go with NAMESPACE/POD; scenarios bring their own", _BAD_INPUT
            )
        _print((decide(scenario) for scenario in read_scenarios(args.source)), args.output)
        return 0
    namespace, slash, name = args.pod.partition("/")
    if not (namespace and slash and name) or "/" in name:
        return _complain(f"{args.pod!r} is not NAMESPACE/POD, such as default/web-0", _BAD_INPUT)
    config = load_file(Path(args.config)) if args.config else None
    live = asyncio.run(_read_cluster(args, namespace, name, config))
    for note in live.notes:
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    _print([decide(live.scenario)], args.output)
    return 0


async def _read_cluster(
    args: argparse.Namespace, namespace: str, name: str, config: LoadedConfig | None
) -> LiveScenario:
    connection = await load_connection(master=args.master, kubeconfig=args.kubeconfig)
    async with APIClient(connection) as client:
        return await live_scenario(client, namespace, name, config)


def _print(decisions: Iterable[Decision], output: str) -> None:
    style = style_of(sys.stdout)
    for position, decision in enumerate(decisions):
        if output == "json":
            print(msgspec.json.encode(decision_tree(decision)).decode())
        else:
            print(_text(decision, style, is_first=position == 0))
    sys.stdout.flush()


def _text(decision: Decision, style: Style, *, is_first: bool) -> str:
    text = decision_text(decision, style)
    encoding = sys.stdout.encoding or "utf-8"
    shown = text.encode(encoding, errors="backslashreplace").decode(encoding)
    return shown if is_first else f"\n{shown}"


def _complain(problem: str, code: int) -> int:
    refuse("\n".join(printable(line) for line in problem.splitlines()))
    return code
