"""The flags with which kubectl reaches the cluster that was asked about, in each command that an answer suggests.

A command that is pasted without them goes to whatever cluster kubectl finds by itself: with `--kubeconfig FILE` or
`--context NAME` that is another one. Explanations are also made by the service, which does not know how its users reach
their cluster, so the flags come into the finished answer: in JSON into each `command`, in text into the lines that are
commands, which are never broken.
"""

import argparse
import re
import shlex
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import msgspec

from kscheduler.answers.pending_in_queue import PendingInQueue
from kscheduler.answers.suggestions import CommonSuggestion
from kscheduler.explain.cluster_answers import PendingPodsAnswer

Tree = dict[str, Any]
P = TypeVar("P", PendingPodsAnswer, PendingInQueue)

# A quoted part of a line, which is left alone, or a kubectl that is run: the first word, or behind a pipe or `&&`.
_STARTS_A_COMMAND: Final = re.compile(r"""('[^']*'|"[^"]*")|(?:^|(?<=\| )|(?<=&& ))kubectl(?= )""")
_LINE_OF_A_COMMAND: Final = re.compile(
    r"(\s+(?:\x1b\[\d+m)?)(kubectl (?:delete|get|label|patch|set|taint|uncordon) .*)"
)


@dataclass(frozen=True, slots=True)
class KubectlFlags:
    """Quoted for a shell; empty where kubectl finds the same cluster by itself, or there is none."""

    text: str = ""

    @classmethod
    def of(cls, args: argparse.Namespace) -> Self:
        """Those that stand for `--master`, `--kubeconfig` and `--context` of our own command."""
        given = {"server": args.master, "kubeconfig": args.kubeconfig, "context": args.context}
        return cls(shlex.join(f"--{flag}={value}" for flag, value in given.items() if value))

    def in_command(self, command: str) -> str:
        """A line for a shell with the flags behind each kubectl of it."""
        if not self.text:
            return command
        return _STARTS_A_COMMAND.sub(lambda found: found[1] or f"kubectl {self.text}", command)

    def in_text(self, text: str) -> str:
        """An answer for people with the flags in each of its commands."""
        return "\n".join(map(self._in_line, text.split("\n"))) if self.text else text

    def in_explanation(self, tree: Tree) -> Tree:
        """The JSON of an explanation likewise."""
        found = tree.get("suggestions")
        return {**tree, "suggestions": [self._in_suggestion(each) for each in found]} if found else tree

    def in_pending(self, answer: P) -> P:
        """The answer about pending pods by reason likewise."""
        if not self.text:
            return answer
        reasons = tuple(
            msgspec.structs.replace(each, suggestion=self._in_common(each.suggestion)) if each.suggestion else each
            for each in answer.reasons
        )
        return msgspec.structs.replace(answer, reasons=reasons)

    def _in_common(self, suggestion: CommonSuggestion) -> CommonSuggestion:
        return msgspec.structs.replace(suggestion, command=self.in_command(suggestion.command))

    def _in_suggestion(self, suggestion: Tree) -> Tree:
        return {**suggestion, "command": self.in_command(suggestion["command"])}

    def _in_line(self, line: str) -> str:
        found = _LINE_OF_A_COMMAND.fullmatch(line)
        return line if found is None else found[1] + self.in_command(found[2])
