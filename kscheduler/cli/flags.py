"""kube-scheduler's own flags, and how they combine with a configuration file.

A command line of kube-scheduler must work here unchanged. The rules are kube-scheduler's:

    without --config    deprecated flags and leader-election flags change the default configuration
    with --config       leader-election flags win over the file; deprecated flags are ignored with a warning, except
                        that --kubeconfig applies if the file names no kubeconfig

A flag whose feature is not built is accepted with a warning; an unknown flag or gate is an error. kscheduler's own
flags here are `--port` (0 means any free port) and `--scheduler-name`; log flags are in `log_flags`, the others in
`run`.
"""

import argparse
import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kscheduler.api.well_known import SCHEDULER_PORT
from kscheduler.cli.parser import COMMAND_LINE, StoreText, boolean, duration, port, text
from kscheduler.config.errors import config_error
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kscheduler.config.loader import LoadedConfig, default_configuration, load_bytes, load_file
from kscheduler.config.overrides import with_settings
from kscheduler.config.types import OWN_SCHEDULER_NAME, ClientConnectionConfiguration
from kscheduler.config.upstream.release import VERSION

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class FlagWarning:
    """A flag without effect, or without its full effect."""

    flag: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings of a command line."""

    config: LoadedConfig
    bind_address: str
    port: int
    warnings: tuple[FlagWarning, ...]


def address(value: str) -> str:
    """An IP address to listen on. Raises `ArgumentTypeError`."""
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is no IP address, such as 0.0.0.0 or ::1") from None


@dataclass(frozen=True, slots=True)
class SettingFlag:
    """A flag that sets a field of the configuration."""

    name: str
    path: str
    read: Callable[[str], Any]
    help: str

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
    SettingFlag("kubeconfig", "clientConnection.kubeconfig", text, "default: in-cluster, else $KUBECONFIG"),
    SettingFlag(
        "kube-api-qps", "clientConnection.qps", float, "requests a second; default: adapts, negative: likewise"
    ),
    SettingFlag("kube-api-burst", "clientConnection.burst", int, "requests at once, with --kube-api-qps (default 100)"),
    SettingFlag("kube-api-content-type", "clientConnection.contentType", str, "JSON is spoken whatever this says"),
    SettingFlag("profiling", "enableProfiling", boolean, "default true"),
    SettingFlag("contention-profiling", "enableContentionProfiling", boolean, "default true"),
)

_NO_TLS = "TLS is not built yet: plain HTTP is served"
_NO_CALLERS = "callers are not authenticated yet: everybody who can reach the port gets an answer"
_NO_FLUSH_SETTING = "the time is fixed at 5 minutes"
_OWN_METRICS = "all metrics are served as they are"
_ONE_VERSION = f"it does what Kubernetes {VERSION} does"

FLAGS_WITHOUT_EFFECT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "authentication-kubeconfig",
            "authentication-token-webhook-cache-ttl",
            "authorization-always-allow-paths",
            "authorization-kubeconfig",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
            "client-ca-file",
            "requestheader-allowed-names",
            "requestheader-client-ca-file",
            "requestheader-extra-headers-prefix",
            "requestheader-group-headers",
            "requestheader-uid-headers",
            "requestheader-username-headers",
        ),
        _NO_CALLERS,
    ),
    **dict.fromkeys(
        (
            "cert-dir",
            "http2-max-streams-per-connection",
            "tls-cert-file",
            "tls-cipher-suites",
            "tls-min-version",
            "tls-private-key-file",
            "tls-sni-cert-key",
        ),
        _NO_TLS,
    ),
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
    "emulated-version": _ONE_VERSION,
}
"""Flags that are accepted with any value but have no effect, with the reason."""

SWITCHES_WITHOUT_EFFECT: Mapping[str, str] = {
    "authentication-skip-lookup": _NO_CALLERS,
    "authentication-tolerate-lookup-failure": _NO_CALLERS,
    "disable-http2-serving": _NO_TLS,
    "emulation-forward-compatible": _ONE_VERSION,
    "permit-address-sharing": "the address is not shared",
    "permit-port-sharing": "the port is not shared",
}
"""The same for boolean flags, which are true without a value."""


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
        "--context",
        action=StoreText,
        metavar="NAME",
        default="",
        help="of the kubeconfig; default: its current-context",
    )
    add_feature_gates(parser)
    served = parser.add_argument_group("HTTP server")
    served.add_argument("--bind-address", type=address, metavar="IP", default="0.0.0.0", help="default %(default)s")
    served.add_argument(
        "--port", type=port, default=argparse.SUPPRESS, help=f"0 for a free one (default {SCHEDULER_PORT})"
    )
    served.add_argument(
        "--secure-port",
        type=port,
        metavar="PORT",
        default=argparse.SUPPRESS,
        help=f"the same by kube-scheduler's name; 0 serves on {LOOPBACK} only. {_NO_TLS}",
    )
    _add_settings(parser.add_argument_group("leader election", "these win over --config"), LEADER_ELECTION)
    _add_settings(parser.add_argument_group("deprecated", "passed over where --config is given"), DEPRECATED)
    _add_not_built(parser)


def add_feature_gates(parser: argparse.ArgumentParser) -> None:
    """Declare `--feature-gates`; it may be given more than once."""
    parser.add_argument(
        "--feature-gates", metavar="A=BOOL,...", action="append", default=[], help="by kube-scheduler's names"
    )


def feature_gates(given: Iterable[str]) -> FeatureGates:
    """The gates of all `--feature-gates`. Raises `ConfigError`."""
    return parse_feature_gates(",".join(given))


def _add_settings(group: Any, flags: Iterable[SettingFlag]) -> None:
    for flag in flags:
        without_value: dict[str, Any] = {"nargs": "?", "const": True} if flag.read is boolean else {}
        group.add_argument(
            f"--{flag.name}",
            type=flag.read,
            metavar="BOOL" if without_value else "VALUE",
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
    given = vars(args)
    gates = feature_gates(args.feature_gates)
    if args.config:
        resolved = _under_flags(given, load_file(args.config, gates))
    else:
        loaded = default_configuration(given.get("scheduler_name", OWN_SCHEDULER_NAME), gates)
        resolved = with_settings(loaded, _settings(given, LEADER_ELECTION + DEPRECATED), COMMAND_LINE)
    bind_address, number = _address(given)
    kubeconfig = resolved.configuration.client_connection.kubeconfig
    flag_warnings = _warnings(given, kubeconfig, has_file=bool(args.config))
    warnings = (*flag_warnings, *(FlagWarning("--feature-gates", text) for text in gates.warnings))
    return Resolved(resolved, bind_address, number, warnings)


def read_again(args: argparse.Namespace) -> Callable[[bytes], LoadedConfig]:
    """From the bytes of the file of `--config`, as it is later, to the configuration that `resolve` would return then.

    The function raises `ConfigError`.
    """
    given, gates = vars(args), feature_gates(args.feature_gates)
    return lambda data: _under_flags(given, load_bytes(data, args.config, gates))


def _under_flags(given: Mapping[str, Any], loaded: LoadedConfig) -> LoadedConfig:
    """A file's configuration with the flags that win over it."""
    settings = _settings(given, LEADER_ELECTION) | _own_kubeconfig(given, loaded)
    return with_settings(loaded, settings, COMMAND_LINE)


def _own_kubeconfig(given: Mapping[str, Any], loaded: LoadedConfig) -> dict[str, Any]:
    """`--kubeconfig`, for a file that names no kubeconfig.

    kube-scheduler ignores the flag together with any file. Falling back to $KUBECONFIG or the current context would
    then schedule on the wrong cluster. A file that names a kubeconfig wins, as upstream, with a warning.
    """
    from_flag, from_file = given.get("kubeconfig", ""), loaded.configuration.client_connection.kubeconfig
    return {"clientConnection.kubeconfig": from_flag} if from_flag and not from_file else {}


def _settings(given: Mapping[str, Any], flags: Iterable[SettingFlag]) -> dict[str, Any]:
    """Values by path. As in client-go, a negative rate limit means none, and 0 means the default."""
    values = {flag.path: given[flag.key] for flag in flags if flag.key in given}
    defaults = ClientConnectionConfiguration()
    if values.get("clientConnection.qps", 0) < 0:
        del values["clientConnection.qps"]
    for path, default in (("clientConnection.qps", defaults.qps), ("clientConnection.burst", defaults.burst)):
        if values.get(path) == 0:
            values[path] = default
    return values


def _address(given: Mapping[str, Any]) -> tuple[str, int]:
    """Where to serve. `--secure-port=0`, which disables serving in kube-scheduler, serves this machine only."""
    bind_address: str = given["bind_address"]
    plain, secure = given.get("port"), given.get("secure_port")
    if plain is None and secure is None:
        return bind_address, SCHEDULER_PORT
    if plain is not None and secure is not None and plain != secure:
        raise config_error("", f"--port {plain} and --secure-port {secure} mean the same: give one", COMMAND_LINE)
    if plain is None and secure == 0:
        return LOOPBACK, 0
    return bind_address, plain if plain is not None else secure or 0


def _warnings(given: Mapping[str, Any], kubeconfig: str, *, has_file: bool) -> Iterator[FlagWarning]:
    if has_file:
        passed_over = [flag.name for flag in DEPRECATED if flag.key in given]
        if "kubeconfig" in passed_over and given["kubeconfig"] == kubeconfig:
            passed_over.remove("kubeconfig")
        for name in [*passed_over, *(["scheduler-name"] if "scheduler_name" in given else [])]:
            yield FlagWarning(f"--{name}", "is passed over: --config is given")
    if "secure_port" in given:
        yield FlagWarning("--secure-port", _NO_TLS)
    for name, reason in {**FLAGS_WITHOUT_EFFECT, **SWITCHES_WITHOUT_EFFECT}.items():
        if name.replace("-", "_") in given:
            yield FlagWarning(f"--{name}", f"has no effect: {reason}")
