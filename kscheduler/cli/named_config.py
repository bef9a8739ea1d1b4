"""The configuration that a command line names, and all that is wrong with it: one edit can then correct all of it."""

import argparse
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kscheduler.api.releases import BEHAVIOURS, SEE_OTHER_VERSION, VERSION, listed
from kscheduler.cli.debugging import add_debug_flag, begin_debugging
from kscheduler.cli.parser import text
from kscheduler.cli.quick_imports import collector_pauses
from kscheduler.config.errors import ConfigError, SeveralMistakesError
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates

if TYPE_CHECKING:
    from kscheduler.assembly.configured import ConfigurationReader, Configured

T = TypeVar("T")

# Of `v1.38.0-beta.0` the minor version and the patch release.
_VERSION: Final = re.compile(r"v?(?P<minor>\d{1,4}\.\d{1,4})(?:\.(?P<patch>\d{1,9})(?:[-+].*)?)?", re.ASCII)


def add_feature_gates(parser: Any, without: str = VERSION) -> None:
    """Declare `--feature-gates`, which may be given more than once, and `--emulated-version`.

    `without`: what help says is followed without that flag.
    """
    parser.add_argument(
        "--feature-gates", metavar="A=BOOL,...", action="append", default=[], help="by kube-scheduler's names"
    )
    parser.add_argument(
        "--emulated-version",
        type=emulated_version,
        metavar="VERSION",
        default=None,
        help=f"decide as kube-scheduler of this version: {listed(BEHAVIOURS, 'or')} (default: {without})",
    )


def emulated_version(given: str) -> str:
    """`1.37`, also of `kube=1.37`, `v1.37`, `1.37.0` and `1.37.0-beta.0`, as kube-scheduler takes it.

    Raises `ArgumentTypeError`, also for `1.37.1`: kube-scheduler refuses it.
    """
    found = _VERSION.fullmatch(given.strip().removeprefix("kube=").strip())
    if found is None:
        hint = " (as MAJOR.MINOR)"
    elif found["minor"] not in BEHAVIOURS:
        hint = ""
    elif int(found["patch"] or 0):
        hint = f" (as MAJOR.MINOR; all patch releases decide alike: write {found['minor']})"
    else:
        return found["minor"]
    raise argparse.ArgumentTypeError(
        f"{given!r} is none of the versions that are followed: {', '.join(BEHAVIOURS)}{hint}"
    )


def add_plugin_flags(parser: Any) -> None:
    """Declare `--plugin` and `--plugin-directory`; both may be given more than once."""
    parser.add_argument(
        "--plugin",
        action="append",
        type=text,
        metavar="FILE",
        default=[],
        help="a Python file with plugins, or a module (acme.policies). Without --config each is enabled "
        "after the default plugins, with weight 1; with it, a profile of the file enables it by name. May be repeated",
    )
    parser.add_argument(
        "--enable-plugins",
        action="store_true",
        help="with --config, enable each plugin of --plugin in each of its profiles too, as without --config; also one "
        "that a file has later",
    )
    parser.add_argument(
        "--plugin-directory",
        action="append",
        type=text,
        metavar="DIRECTORY",
        default=[],
        help="the configuration may name plugin files (pluginSources) below it; default: none, because who may edit a "
        "ConfigMap may not thereby run code. May be repeated",
    )
    add_debug_flag(parser)


def configuration_reader(args: argparse.Namespace, gates: FeatureGates) -> "ConfigurationReader":
    """The reader for a command line with `--plugin` and `--plugin-directory`."""
    with collector_pauses():
        from kscheduler.assembly.configured import ConfigurationReader

    begin_debugging(args)
    enables = getattr(args, "enable_plugins", False)
    return ConfigurationReader(gates, args.plugin, args.plugin_directory, enables_plugins=enables)


def feature_gates(args: argparse.Namespace, version: str = "") -> FeatureGates:
    """The gates of all `--feature-gates` in a version, by default the followed one. Raises `ConfigError`."""
    return parse_feature_gates(",".join(args.feature_gates), version=version or args.emulated_version or VERSION)


def versions_to_try(args: argparse.Namespace) -> list[str]:
    """The versions by which a configuration may be judged: the given one, else the default one and then the others.

    The oldest of these first: its rules run on newer API servers, too, and it reads no API that only newer ones serve.
    """
    if args.emulated_version:
        return [args.emulated_version]
    return [VERSION, *(version for version in BEHAVIOURS if version != VERSION)]


def by_first_that_takes_it(args: argparse.Namespace, read: Callable[[str], T]) -> T:
    """What `read` makes of a configuration by the first version that takes it.

    Which Kubernetes is followed is known when the API server has told its version. A gate or a field that only another
    followed version has is no mistake until then. Raises the `ConfigError` of `fewest_mistakes`.
    """
    failures: list[ConfigError] = []
    for version in versions_to_try(args):
        try:
            return read(version)
        except ConfigError as failure:
            failures.append(failure)
    raise fewest_mistakes(failures)


def fewest_mistakes(failures: Iterable[ConfigError]) -> ConfigError:
    """Of what several versions say: that with the fewest mistakes, and then with the fewest that another version has.

    A gate that no version can switch on is told by the one that knows it.
    """

    def weight(failure: ConfigError) -> tuple[int, int]:
        elsewhere = sum(SEE_OTHER_VERSION in problem.message for problem in failure.problems)
        return len(failure.problems), elsewhere

    return min(failures, key=weight)


def check_built(configured: "Configured", *, runs_here: bool = True) -> None:
    """Raises `ConfigError` if the configuration cannot be built, with all that keeps it from that.

    `runs_here`: whether the service runs on this machine, where the files that it reads must be.
    """
    from kscheduler.assembly.configuration_checks import unusable

    failure = unusable(configured.config, configured.registry, runs_here=runs_here)
    if failure is not None:
        raise failure


def misspelt_in(configured: "Configured") -> list[str]:
    """What looks misspelt in the plugins that were loaded, a sentence each; empty if the configuration is unusable.

    The plugins are built for this, over no cluster.
    """
    if not configured.origins:
        return []
    from kscheduler.assembly import profiles_over
    from kscheduler.scheduling.profiles import misspelt
    from kscheduler.state.cache import Cache

    with suppress(ConfigError):  # its use says what is wrong with it
        profiles = profiles_over(Cache(), configured.config, configured.registry)
        return [f"plugin {plugin}: {reported}" for plugin, reported in misspelt(profiles.values())]
    return []


def mistakes_in_file(
    args: argparse.Namespace, path: str, *, runs_here: bool = True, version: str = ""
) -> ConfigError | None:
    """What `kscheduler config check` says against the file, under the flags of a command line that has mistakes itself.

    `version`: of Kubernetes, by which it is judged; empty: by each that may be followed. `None`: nothing, or there is
    no file.
    """
    if not path:
        return None

    def check(by: str) -> None:
        reader = configuration_reader(args, sound_gates(args, by))
        check_built(read_with_extenders(reader, path, runs_here=runs_here), runs_here=runs_here)

    try:
        if version:
            check(version)
        else:
            by_first_that_takes_it(args, check)
    except ConfigError as failure:
        return failure
    return None


def with_mistakes_in_file(
    failure: ConfigError, args: argparse.Namespace, path: str, *, runs_here: bool = True, version: str = ""
) -> ConfigError:
    """The mistakes of a command line, and those of the file that it names; `version` as `mistakes_in_file`."""
    further = mistakes_in_file(args, path, runs_here=runs_here, version=version)
    return failure if further is None else SeveralMistakesError([failure, further])


def read_with_extenders(reader: "ConfigurationReader", path: str, *, runs_here: bool = True) -> "Configured":
    """A file. Raises `ConfigError` with its mistakes and those of its extenders."""
    from kscheduler.scheduling.extenders.addresses import with_unusable_extenders

    try:
        with reader.telling_of_hangs():
            return reader.read_file(path)
    except ConfigError as failure:
        raise with_unusable_extenders(failure, runs_here=runs_here) from None


def sound_gates(args: argparse.Namespace, version: str) -> FeatureGates:
    """Those of the command line that a version can read by themselves: a file is judged under them all the same."""
    settings = ",".join(args.feature_gates).split(",")
    sound: list[str] = []
    for setting in (*settings, *settings):  # twice: a gate may need another one that stands behind it
        with suppress(ConfigError):
            parse_feature_gates(",".join([*sound, setting]), version=version)
            sound.append(setting)
    return parse_feature_gates(",".join(sound), version=version)
