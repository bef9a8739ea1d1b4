"""kube-scheduler's own flags, and how they combine with a configuration file.

A command line of kube-scheduler must work here unchanged. The rules are kube-scheduler's:

    without --config    deprecated flags and leader-election flags change the default configuration
    with --config       leader-election flags win over the file; deprecated flags are ignored with a warning, except
                        that --kubeconfig applies if the file names no kubeconfig

A flag whose feature is not built is accepted with a warning; an unknown flag or gate is an error. kscheduler's own
flag here is `--scheduler-name`; flags about HTTP are in `serving_flags`, about logs in `log_flags`, others in `run`.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kscheduler.cli.debugging import ELECTS
from kscheduler.cli.named_config import (
    add_feature_gates,
    add_plugin_flags,
    by_first_that_takes_it,
    check_built,
    configuration_reader,
    feature_gates,
    read_with_extenders,
    sound_gates,
)
from kscheduler.cli.parser import COMMAND_LINE, StoreText, boolean, duration, text
from kscheduler.cli.serving_flags import add_serving_flags, flag_values, http_serving_of, serving_warnings
from kscheduler.config.errors import ConfigError, Mistakes, Problem, SeveralMistakesError, invalid
from kscheduler.config.loader import LoadedConfig, UnusableConfigError, default_configuration, to_tree
from kscheduler.config.overrides import with_settings
from kscheduler.config.types import OWN_SCHEDULER_NAME, ClientConnectionConfiguration
from kscheduler.config.validation.configuration import ABOVE_RENEW_DEADLINE, ABOVE_RETRY_PERIOD
from kscheduler.server.serving import HTTPServing

if TYPE_CHECKING:
    from kscheduler.assembly.configured import ConfigurationReader, Configured


class FlagWarning(msgspec.Struct, frozen=True):
    """A flag without effect, or without its full effect."""

    flag: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings of a command line."""

    configured: "Configured"
    serving: HTTPServing
    flags: Mapping[str, str]
    """All flags with the values in force, for `/flagz`."""
    warnings: tuple[FlagWarning, ...]
    reader: "ConfigurationReader" = field(compare=False)
    """Reads the file again, when it has changed."""

    @property
    def config(self) -> LoadedConfig:
        return self.configured.config


class SettingFlag(msgspec.Struct, frozen=True):
    """A flag that sets a field of the configuration."""

    name: str
    path: str
    read: Callable[[str], Any]
    help: str
    metavar: str = "VALUE"
    """As the help shows it; the shell completes FILE."""

    @property
    def key(self) -> str:
        """The attribute of the parsed arguments."""
        return self.name.replace("-", "_")


LEADER_ELECTION = (
    SettingFlag("leader-elect", "leaderElection.leaderElect", boolean, "only the leader schedules (default true)"),
    SettingFlag("leader-elect-lease-duration", "leaderElection.leaseDuration", duration, "default 15s"),
    SettingFlag("leader-elect-renew-deadline", "leaderElection.renewDeadline", duration, "default 10s"),
    SettingFlag("leader-elect-retry-period", "leaderElection.retryPeriod", duration, "default 2s"),
    SettingFlag("leader-elect-resource-lock", "leaderElection.resourceLock", text, "default leases"),
    SettingFlag("leader-elect-resource-name", "leaderElection.resourceName", text, "default: as --scheduler-name"),
    SettingFlag("leader-elect-resource-namespace", "leaderElection.resourceNamespace", text, "default kube-system"),
)
DEPRECATED = (
    SettingFlag("kubeconfig", "clientConnection.kubeconfig", text, "default: in-cluster, else $KUBECONFIG", "FILE"),
    SettingFlag(
        "kube-api-qps", "clientConnection.qps", float, "requests a second; default: adapts, negative: likewise"
    ),
    SettingFlag("kube-api-burst", "clientConnection.burst", int, "requests at once, with --kube-api-qps (default 100)"),
    SettingFlag("kube-api-content-type", "clientConnection.contentType", str, "JSON is spoken whatever this says"),
    SettingFlag("profiling", "enableProfiling", boolean, "default true"),
    SettingFlag("contention-profiling", "enableContentionProfiling", boolean, "default true"),
)

_ELECTS: Final = "leaderElection.leaderElect"
_LEASE, _RENEW, _RETRY = (f"leaderElection.{name}" for name in ("leaseDuration", "renewDeadline", "retryPeriod"))
# How validation ends, the time that must be longer, the one that must be shorter, and by which factor.
_CONTRADICTIONS = ((ABOVE_RENEW_DEADLINE, _LEASE, _RENEW, ""), (ABOVE_RETRY_PERIOD, _RENEW, _RETRY, "1.2 times "))

_DEPRECATED_HELP = "ignored where --config is given, but for --kubeconfig, which holds where the file names none"
_NO_HTTP2 = "HTTP/1.1 is served, and no HTTP/2"
_NO_CURVES = "OpenSSL chooses the key exchange by itself"
_NO_FLUSH_SETTING = "the time is fixed at 5 minutes"
_OWN_METRICS = "all metrics are served as they are"
_AS_IT_IS = "a version is followed as it is"

# Flags that are accepted with any value but have no effect, with the reason.
FLAGS_WITHOUT_EFFECT: Mapping[str, str] = {
    "http2-max-streams-per-connection": _NO_HTTP2,
    "min-compatibility-version": _AS_IT_IS,
    "tls-curve-preferences": _NO_CURVES,
    "pod-max-in-unschedulable-pods-duration": _NO_FLUSH_SETTING,
    **dict.fromkeys(
        (
            "allow-metric-labels",
            "allow-metric-labels-manifest",
            "disabled-metrics",
            "show-hidden-metrics-for-version",
        ),
        _OWN_METRICS,
    ),
}

# The same for boolean flags, which are true without a value.
SWITCHES_WITHOUT_EFFECT: Mapping[str, str] = {
    "emulation-forward-compatible": _AS_IT_IS,
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags. Flags that are not given have no attribute, except `config` and `feature_gates`."""
    parser.add_argument(
        "--config",
        action=StoreText,
        metavar="FILE",
        default="",
        help="a KubeSchedulerConfiguration v1 file; - is standard input",
    )
    parser.add_argument(
        "--scheduler-name",
        action=StoreText,
        metavar="NAME",
        default=argparse.SUPPRESS,
        help=f"without --config: pods whose spec.schedulerName is this are scheduled (default {OWN_SCHEDULER_NAME})",
    )
    parser.add_argument(
        "--master", action=StoreText, metavar="URL", default="", help="API server without credentials, as kubectl proxy"
    )
    parser.add_argument(
        "--no-kubeconfig",
        action="store_true",
        help="with --master: the kubeconfig that clientConnection of --config names is not read, and no credentials "
        "are sent, as to an embedded cluster",
    )
    parser.add_argument(
        "--context",
        action=StoreText,
        metavar="NAME",
        default="",
        help="of the kubeconfig; default: its current-context",
    )
    add_feature_gates(parser, "the newest that is not newer than the API server")
    add_plugin_flags(parser)
    add_serving_flags(parser)
    _add_settings(parser.add_argument_group("leader election", "these win over --config"), LEADER_ELECTION)
    _add_settings(parser.add_argument_group("deprecated", _DEPRECATED_HELP), DEPRECATED)
    _add_not_built(parser)


def _add_settings(group: Any, flags: Iterable[SettingFlag]) -> None:
    for flag in flags:
        without_value: dict[str, Any] = {"nargs": "?", "const": True} if flag.read is boolean else {}
        group.add_argument(
            f"--{flag.name}",
            type=flag.read,
            metavar="BOOL" if without_value else flag.metavar,
            default=argparse.SUPPRESS,
            help=flag.help,
            **without_value,
        )


def _add_not_built(parser: argparse.ArgumentParser) -> None:
    """Declare flags of kube-scheduler that are accepted without effect; the help does not show them."""
    for name in FLAGS_WITHOUT_EFFECT:
        parser.add_argument(f"--{name}", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    for name in SWITCHES_WITHOUT_EFFECT:
        parser.add_argument(
            f"--{name}", nargs="?", const=True, type=boolean, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )


def resolve(args: argparse.Namespace) -> Resolved:
    """Combine flags and file. Raises `ConfigError` with all mistakes."""
    return by_first_that_takes_it(args, lambda version: _resolve(args, version))


def _resolve(args: argparse.Namespace, version: str) -> Resolved:
    given, mistakes = vars(args), Mistakes()
    gates = mistakes.of(lambda: feature_gates(args, version)) or sound_gates(args, version)
    reader = configuration_reader(args, gates)
    with reader.telling_of_hangs():
        configured = mistakes.of(lambda: _of_file(given, reader) if args.config else _by_flags(given, reader))
    serving = mistakes.of(lambda: http_serving_of(given))
    if args.no_kubeconfig and (not args.master or given.get("kubeconfig")):
        mistakes.of(_refuse_no_kubeconfig)
    if args.debug_plugins and given.get("leader_elect"):
        mistakes.of(_refuse_to_elect)
    if configured is None or serving is None or mistakes:
        if configured is not None:
            mistakes.of(lambda: check_built(configured))
        raise mistakes.error()
    resolved = configured.config
    kubeconfig = resolved.configuration.client_connection.kubeconfig
    served = (FlagWarning(flag, reason) for flag, reason in serving_warnings(given, serving))
    flag_warnings = (*ignored_flags(given, kubeconfig), *served)
    warnings = (*flag_warnings, *(FlagWarning("--feature-gates", text) for text in gates.warnings))
    flags = {**_values(given, resolved), **flag_values(given)}
    return Resolved(configured, serving, flags, warnings, reader)


def _refuse_no_kubeconfig() -> None:
    raise ConfigError([Problem("--no-kubeconfig", "goes with --master, and without --kubeconfig")], COMMAND_LINE)


def _refuse_to_elect() -> None:
    raise ConfigError([Problem("--leader-elect", ELECTS)], COMMAND_LINE)


def read_again(args: argparse.Namespace, reader: "ConfigurationReader") -> "Callable[[bytes], Configured]":
    """From the bytes of the file of `--config`, as it is later, to the configuration that `resolve` would return then.

    Without `--config` only the plugins of the command line are read again. The function raises `ConfigError`.
    """
    given = vars(args)
    if not args.config:
        return lambda _: _by_flags(given, reader)
    return lambda data: _under_flags(given, reader.read_bytes(data, args.config))


def _of_file(given: Mapping[str, Any], reader: "ConfigurationReader") -> "Configured":
    """The configuration of the file, under the flags. Raises `ConfigError`, also with mistakes of flags beside it."""
    try:
        configured = read_with_extenders(reader, given["config"])
    except UnusableConfigError as failure:
        mistakes, readable = Mistakes(), failure.readable
        mistakes.of(lambda: _with_flags(readable, _settings(given, LEADER_ELECTION)))
        of_flags = (
            [problem for problem in mistakes.error().problems if problem.path.startswith("--")] if mistakes else []
        )
        raise (SeveralMistakesError([ConfigError(of_flags, COMMAND_LINE), failure]) if of_flags else failure) from None
    return _under_flags(given, configured)


def _by_flags(given: Mapping[str, Any], reader: "ConfigurationReader") -> "Configured":
    """The configuration without a file."""
    configured = reader.default(given.get("scheduler_name", OWN_SCHEDULER_NAME))
    settings = _settings(given, LEADER_ELECTION + DEPRECATED)
    return replace(configured, config=_with_flags(configured.config, settings))


def _under_flags(given: Mapping[str, Any], configured: "Configured") -> "Configured":
    """A file's configuration with the flags that win over it."""
    loaded = configured.config
    settings = _settings(given, LEADER_ELECTION) | _own_kubeconfig(given, loaded)
    return replace(configured, config=_with_flags(loaded, settings))


def _with_flags(loaded: LoadedConfig, settings: Mapping[str, Any]) -> LoadedConfig:
    """The configuration with the values of flags. Raises `ConfigError`, which names the flags."""
    try:
        return with_settings(loaded, settings, COMMAND_LINE)
    except ConfigError as failure:
        problems = (_named_by_flag(problem, settings, loaded) for problem in failure.problems)
        raise ConfigError(problems, COMMAND_LINE) from None


def _named_by_flag(problem: Problem, settings: Mapping[str, Any], loaded: LoadedConfig) -> Problem:
    """A mistake with the flag that makes it, where there is one.

    Two times that contradict each other: the flag is named with its own value, and then the other time.
    """
    flags = {flag.path: f"--{flag.name}" for flag in LEADER_ELECTION + DEPRECATED}
    for detail, longer, shorter, factor in _CONTRADICTIONS:
        if not problem.message.endswith(detail):
            continue
        values = {path: settings.get(path, _election_time(loaded, path)) for path in (longer, shorter)}
        if longer in settings:
            wanted = f"must be greater than {factor}{shorter}, which is {values[shorter]}"
            return invalid(flags[longer], values[longer], wanted)
        if shorter in settings:
            wanted = f"{factor and f'{factor}it '}must be less than {longer}, which is {values[longer]}"
            return invalid(flags[shorter], values[shorter], wanted)
    return replace(problem, path=flags[problem.path]) if problem.path in settings else problem


def _election_time(loaded: LoadedConfig, path: str) -> Any:
    """A time of the election that no flag gives, as the file or the default has it."""
    election = loaded.configuration.leader_election
    names = dict(zip(election.__struct_encode_fields__, election.__struct_fields__, strict=True))
    return getattr(election, names[path.removeprefix("leaderElection.")])


def _own_kubeconfig(given: Mapping[str, Any], loaded: LoadedConfig) -> dict[str, Any]:
    """`--kubeconfig`, for a file that names no kubeconfig.

    kube-scheduler ignores the flag together with any file. Falling back to $KUBECONFIG or the current context would
    then schedule on the wrong cluster. A file that names a kubeconfig wins, as upstream, with a warning; with
    `--no-kubeconfig` it is as if it named none.
    """
    if given.get("no_kubeconfig"):
        return {"clientConnection.kubeconfig": ""}
    from_flag, from_file = given.get("kubeconfig", ""), loaded.configuration.client_connection.kubeconfig
    return {"clientConnection.kubeconfig": from_flag} if from_flag and not from_file else {}


def _settings(given: Mapping[str, Any], flags: Iterable[SettingFlag]) -> dict[str, Any]:
    """Values by path. As in client-go, a negative rate limit means none, and 0 means the default."""
    values = {flag.path: given[flag.key] for flag in flags if flag.key in given}
    defaults = ClientConnectionConfiguration()
    if given.get("debug_plugins"):
        values[_ELECTS] = False
    if values.get("clientConnection.qps", 0) < 0:
        del values["clientConnection.qps"]
    for path, default in (("clientConnection.qps", defaults.qps), ("clientConnection.burst", defaults.burst)):
        if values.get(path) == 0:
            values[path] = default
    return values


def _values(given: Mapping[str, Any], loaded: LoadedConfig) -> dict[str, str]:
    """Flags with their values: those that set a field as it holds now, others as they were given."""
    tree = to_tree(loaded.configuration)
    values = {flag.name: _text_at(tree, flag.path) for flag in (*LEADER_ELECTION, *DEPRECATED)}
    others = ("config", "master", "context", "scheduler_name", "v", "log_format", "logging_format", "permit_token_file")
    for key in (*others, *(name.replace("-", "_") for name in (*FLAGS_WITHOUT_EFFECT, *SWITCHES_WITHOUT_EFFECT))):
        if given.get(key) is not None:
            values[key.replace("_", "-")] = str(given[key]).lower() if given[key] is True else str(given[key])
    values["feature-gates"] = ",".join(given["feature_gates"])
    values["master"] = _without_password(values.get("master", ""))
    return values


def _text_at(tree: Mapping[str, Any], path: str) -> str:
    value: Any = tree
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, Mapping) else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_password(url: str) -> str:
    """The URL without a user and password, which `/flagz` must not show."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def mistaken_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the values of flags that set a field, by `--name`, whatever a file says."""
    try:
        _with_flags(default_configuration(), _settings(given, LEADER_ELECTION + DEPRECATED))
    except ConfigError as failure:
        return {problem.path: problem.message for problem in failure.problems}
    return {}


def ignored_flags(given: Mapping[str, Any], kubeconfig: str) -> Iterator[FlagWarning]:
    """The flags that have no effect, whatever their values. `kubeconfig`: the one in force."""
    file = given["config"]
    if file:
        if given.get("kubeconfig", kubeconfig) != kubeconfig:
            names = f"clientConnection.kubeconfig of {file} names {kubeconfig}"
            yield FlagWarning("--kubeconfig", f"is ignored: {names}; the flag holds where the file names none")
        passed_over = [flag.name for flag in DEPRECATED if flag.key in given and flag.name != "kubeconfig"]
        for name in [*passed_over, *(["scheduler-name"] if "scheduler_name" in given else [])]:
            yield FlagWarning(f"--{name}", "is ignored: --config is given")
    for name, reason in {**FLAGS_WITHOUT_EFFECT, **SWITCHES_WITHOUT_EFFECT}.items():
        if name.replace("-", "_") in given:
            yield FlagWarning(f"--{name}", f"has no effect: {reason}")
