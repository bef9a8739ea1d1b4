"""Which flags of somebody's kube-scheduler mean nothing here, and why: for `config convert` of its manifest.

Judged without what only the other machine has: no file is read, and a value that the kubelet fills in (`$(HOST_IP)`) is
taken as it is. What `run` would refuse has to be among the reasons, or the pod that is written would end at its start.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from kscheduler.api.releases import BEHAVIOURS, SEE_OTHER_VERSION
from kscheduler.cli.flags import DEPRECATED, add_flags, ignored_flags, mistaken_settings
from kscheduler.cli.log_flags import add_log_flags, without_effect
from kscheduler.cli.serving_flags import http_serving_of, serving_warnings
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import gate_refusals
from kscheduler.config.unsupported_settings import RULES

_GATES: Final = "--feature-gates="
_OF_THE_KUBELET: Final = "$("
# Flags of earlier versions that have another meaning here.
_GONE: Final[Mapping[str, str]] = {
    "port": "kube-scheduler's port without TLS is gone since 1.24; --metrics-bind-address is the like of it",
}


class _Reader(argparse.ArgumentParser):
    """Raises what is wrong, where the command's own parser would end the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)

    def knows(self, flag: str) -> bool:
        return flag in self._option_string_actions


def without_meaning(words: Sequence[str]) -> dict[int, str]:
    """Of flags, each as `--name` or `--name=value`, gates one by one: those to leave out, by index, with the reason."""
    parser = _Reader(allow_abbrev=False, add_help=False)
    add_flags(parser)
    add_log_flags(parser)
    reasons: dict[int, str] = {}
    found = parser.parse_args([])
    names = [word[2:].partition("=")[0] for word in words]
    for index, (word, name) in enumerate(zip(words, names, strict=True)):
        if name in _GONE:
            reasons[index] = _GONE[name]
        elif not parser.knows(f"--{name}"):
            reasons[index] = "no flag of this name is known"
        elif _OF_THE_KUBELET not in word:
            try:
                parser.parse_args([word], found)
            except ValueError as failure:
                reasons[index] = str(failure).partition(": ")[2] or str(failure)
    ignored = _ignored(found)
    for index, name in enumerate(names):
        if f"--{name}" in ignored:
            reasons.setdefault(index, ignored[f"--{name}"])
    return reasons | _refused_gates(words, found.emulated_version)


def _ignored(found: argparse.Namespace) -> dict[str, str]:
    """The flags that `run` would refuse or pass over, by `--name`."""
    given = vars(found)
    # Times of the election that contradict each other here may agree with those of the file.
    ignored = without_effect(found) | ({} if found.config else mistaken_settings(given))
    # Whether --kubeconfig holds beside --config, the file says, which is not here.
    warnings = ignored_flags(given, given.get("kubeconfig", ""))
    ignored |= {warning.flag: warning.reason for warning in warnings}
    try:
        of_port = dict(serving_warnings(given, http_serving_of(given)))
    except ConfigError as failure:
        named = ((re.match(r"--[\w-]+", str(problem)), problem.message) for problem in failure.problems)
        ignored |= {match[0]: message for match, message in named if match}
    else:
        # All others are honoured in part.
        ignored |= {flag: why for flag, why in of_port.items() if why.startswith(("has no effect", "is ignored"))}
    rules = {rule.path: rule for rule in RULES}
    for flag in DEPRECATED:
        rule = rules.get(flag.path)
        if rule is not None and flag.key in given and not rule.fine(given[flag.key]):
            ignored.setdefault(f"--{flag.name}", f"has no effect: {rule.reason}")
    return ignored


def _refused_gates(words: Sequence[str], version: str | None) -> dict[int, str]:
    """By the version that takes most of them, and then by the one that knows what it refuses."""
    gates = {index: word.removeprefix(_GATES) for index, word in enumerate(words) if word.startswith(_GATES)}
    by_version = [
        {index: "; ".join(refusals) for index, text in gates.items() if (refusals := gate_refusals(text, each))}
        for each in ([version] if version else BEHAVIOURS)
    ]
    return min(by_version, key=lambda each: (len(each), sum(SEE_OTHER_VERSION in text for text in each.values())))
