"""`kscheduler config`: check or convert a configuration file, or print the default one, or a profile per policy."""

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from kscheduler.api.releases import VERSION, listed, numbers_of, to_try
from kscheduler.cli.named_config import (
    add_feature_gates,
    add_plugin_flags,
    by_first_that_takes_it,
    check_built,
    configuration_reader,
    feature_gates,
    fewest_mistakes,
    misspelt_in,
    mistakes_in_file,
    read_with_extenders,
    versions_to_try,
    with_mistakes_in_file,
)
from kscheduler.cli.parser import StoreText
from kscheduler.cli.refusal import refuse
from kscheduler.config.conversion.converting import convert
from kscheduler.config.errors import ConfigError, escaped, shown
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import STANDARD_INPUT, LoadedConfig, data_of, dump_default
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.config.unsupported_settings import RULES, unhonoured

if TYPE_CHECKING:
    from kscheduler.assembly.configured import Configured

_CHECK = """\
Read a KubeSchedulerConfiguration as the service would. All mistakes are reported at once, a line for each, with exit
code 2. Only a file that is no YAML, or of another kind or version, is judged no further than that; names of plugins
are judged when all files and modules that they are loaded from can be; and plugins are built, each with its arguments,
once the fields are right. A setting, gate or plugin that is known but has no effect here (yet) is a warning: the file
may be used. An extender's certificates need not be on this machine: a note tells of those that are not."""
_CHECK_EPILOG = """\
Exit codes: 0 the file can be used with one of the followed versions of Kubernetes at least, or with that of
--emulated-version; warnings say which others do not take it, and why; 2 it cannot be used with any of them."""
_CONVERT = """\
Print a KubeSchedulerConfiguration v1 that means what the file means, as far as that goes, and list the rest on standard
error, by name and line. FILE is a KubeSchedulerConfiguration of v1alpha1 to v1beta3, or of v1 with plugins of other
projects; a policy file (Kubernetes up to 1.22); or Volcano's volcano-scheduler.conf; each alone, in a ConfigMap, in a
list or among other documents. Of a manifest that runs kube-scheduler (kubeadm's static pod kube-scheduler.yaml, a
Deployment) the manifest that runs kscheduler in its place is printed, with its flags. Exit code 2: nothing can be made
of it."""
_DEFAULT = "Print the configuration that applies without a file, as a file to start from."
_POLICIES = """\
Print a configuration with a profile for each ready policy (random, round-robin, cheapest, annotation-match, load-aware,
external: docs/policies.md; best-fit, fragmentation-aware, dominant-most-allocated: docs/packing.md) beside the default
one, as a file to start from."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the verbs below `config`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "config", help="check or convert a configuration file, print the default one", description=__doc__
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="verb")
    check = verbs.add_parser(
        "check", help="check a file for mistakes", description=_CHECK, epilog=_CHECK_EPILOG, allow_abbrev=False
    )
    check.add_argument(
        "file", action=StoreText, metavar="FILE", help="a KubeSchedulerConfiguration v1 file; - is standard input"
    )
    add_feature_gates(check, "the file is judged by each of them")
    add_plugin_flags(check)
    check.set_defaults(further_mistakes=lambda args: mistakes_in_file(args, args.file, runs_here=False))
    text = "turn a file of an earlier version, a policy file, Volcano's or a manifest into ours"
    conversion = verbs.add_parser("convert", help=text, description=_CONVERT, allow_abbrev=False)
    conversion.add_argument("file", action=StoreText, metavar="FILE", help="the file; - is standard input")
    add_feature_gates(conversion)
    add_plugin_flags(conversion)
    default = verbs.add_parser("default", help="print the defaults", description=_DEFAULT, allow_abbrev=False)
    default.add_argument(
        "--scheduler-name",
        action=StoreText,
        metavar="NAME",
        default=OWN_SCHEDULER_NAME,
        help="of the profile and of the Lease (default %(default)s)",
    )
    add_feature_gates(default)
    text = "print a profile for each ready policy"
    policies = verbs.add_parser("policies", help=text, description=_POLICIES, allow_abbrev=False)
    policies.add_argument("names", nargs="*", metavar="NAME", help="only these profiles (default: all)")
    return parser


def run(args: argparse.Namespace) -> int:
    """Check or print. 0: the file may be used; 2: it may not."""
    if args.verb == "policies":
        return _print_policies(args.names)
    answers = {"check": _check, "convert": _convert, "default": _print_default}
    try:
        return answers[args.verb](args)
    except ConfigError as error:
        return refuse(error)


def _print_policies(names: Sequence[str]) -> int:
    """Print the shipped file, with its comments, or what it has of these profiles; kube-scheduler's own stays."""
    text = files("kscheduler.config").joinpath("policies.yaml").read_text(encoding="utf-8")
    items = re.findall(r"(?m)^(?:  #.*\n)*  - schedulerName: .*\n(?:    .*\n)*", text)
    head = text.partition(items[0])[0]
    ready = {item.partition("schedulerName: ")[2].split()[0]: item for item in items}
    unknown = [name for name in names if name not in ready]
    if unknown:
        return refuse(f"{unknown[0]!r} is no ready policy: there are {', '.join(ready)}")
    chosen = {*(names or ready), next(iter(ready))}
    print(head + "".join(item for name, item in ready.items() if name in chosen), end="")
    return 0


def _check(args: argparse.Namespace) -> int:
    """By each version that may be followed, as the API server decides which it is; one that takes it is enough."""
    sound: list[tuple[FeatureGates, Configured]] = []
    refused: list[tuple[str, ConfigError]] = []
    for version in versions_to_try(args):
        try:
            sound.append(_read(args, version))
        except ConfigError as failure:
            refused.append((version, failure))
    if not sound:
        raise fewest_mistakes(failure for _, failure in refused)
    gates, configured = sound[0]
    loaded = configured.config
    doubts = unhonoured(loaded, plugins=configured.registry.names(), defaults_too=True)
    taking = sorted((taken.version for taken, _ in sound), key=numbers_of)
    warnings = [*_refusals(refused, taking), *gates.warnings, *(f"{loaded.where}: {warning}" for warning in doubts)]
    warnings += [f"{loaded.where}: {note}" for note in _files_away(loaded)]
    warnings += [f"plugin {each.name} ({each.origin}) is enabled in no profile" for each in configured.unused]
    warnings += misspelt_in(configured)
    for warning in warnings:
        print(f"kscheduler: warning: {warning}", file=sys.stderr)
    with_versions = f" with Kubernetes {listed(taking)}, not with {_versions(refused)}" if refused else ""
    print(_verdict(loaded, with_versions, len(warnings)))
    return 0


def _refusals(refused: Sequence[tuple[str, ConfigError]], taking: Sequence[str]) -> list[str]:
    """What speaks against some of the versions, and what the service does on an API server of each of them."""
    by_reason: dict[str, list[str]] = {}
    for version, refusal in refused:
        for reason in str(refusal).splitlines():
            by_reason.setdefault(reason, []).append(version)
    found = [f"not with Kubernetes {listed(versions)}: {reason}" for reason, versions in by_reason.items()]
    by_rules: dict[str, list[str]] = {}
    for version, _ in refused:
        rules = next((each for each in to_try(version, taking[0]) if each in taking), taking[0])
        by_rules.setdefault(rules, []).append(version)
    return found + [
        f"on an API server of Kubernetes {listed(versions, 'or')} the rules of {rules} apply"
        for rules, versions in by_rules.items()
    ]


def _versions(refused: Sequence[tuple[str, ConfigError]]) -> str:
    return listed((version for version, _ in refused), "or")


def _read(args: argparse.Namespace, version: str) -> tuple[FeatureGates, "Configured"]:
    try:
        gates = feature_gates(args, version)
    except ConfigError as failure:
        raise with_mistakes_in_file(failure, args, args.file, runs_here=False, version=version) from None
    configured = read_with_extenders(configuration_reader(args, gates), args.file, runs_here=False)
    check_built(configured, runs_here=False)
    return gates, configured


def _files_away(loaded: LoadedConfig) -> list[str]:
    if not loaded.configuration.extenders:
        return []
    from kscheduler.scheduling.extenders.addresses import files_away

    found = files_away(loaded.configuration.extenders)
    return [f"{problem} here; it must be there where the service runs" for problem in found]


def _convert(args: argparse.Namespace) -> int:
    # brings the flags of `run`, with what serves HTTP
    from kscheduler.cli.ignored_kube_scheduler_flags import without_meaning

    where = STANDARD_INPUT if args.file == "-" else args.file
    converted = convert(data_of(args.file), where, lambda data: _mistakes(args, data), without_meaning)
    for note in converted.notes:
        place = f"{where}:{note.line}" if note.line else where
        print(f"kscheduler: {place}: {escaped(f'{note.name}: {note.reason}')}", file=sys.stderr)
    print(converted.text, end="")
    return 0


def _mistakes(args: argparse.Namespace, data: bytes) -> ConfigError | None:
    """What `check` says against the result; one version that takes it is enough."""
    try:
        by_first_that_takes_it(args, lambda version: _check_data(args, version, data))
    except ConfigError as failure:
        return failure
    return None


def _check_data(args: argparse.Namespace, version: str, data: bytes) -> None:
    reader = configuration_reader(args, feature_gates(args, version))
    check_built(reader.read_bytes(data, args.file), runs_here=False)


def _verdict(loaded: LoadedConfig, with_versions: str, warnings: int) -> str:
    names = ", ".join(_named(profile.scheduler_name) for profile in loaded.configuration.profiles)
    doubts = f", {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
    return f"{loaded.where}: can be used{with_versions}; it schedules for {names}{doubts}"


def _named(name: str) -> str:
    """The name, in quotes if it contains spaces."""
    return shown(name) if any(character.isspace() for character in name) else name


def _print_default(args: argparse.Namespace) -> int:
    gates = by_first_that_takes_it(args, lambda version: feature_gates(args, version))
    if gates.version != (args.emulated_version or VERSION):
        print(
            f"kscheduler: the defaults of kube-scheduler {gates.version}, the oldest that takes the feature gates",
            file=sys.stderr,
        )
    for warning in gates.warnings:
        print(f"kscheduler: warning: {warning}", file=sys.stderr)
    # What has no effect here has no place in a file to start from; `check` would warn of it.
    print(dump_default(args.scheduler_name, gates, without=[rule.path for rule in RULES]), end="")
    return 0
