"""A transcript of kubectl: what is typed and what is printed, with everything masked that differs from run to run.

Masked are ages, dates, UIDs, resource versions, addresses, the counts of repeated Events, the tail of a
FailedScheduling message that tells about preemption, and the comparison of Go structures that kube-apiserver adds when
it forbids an update.
Columns are padded by kubectl to the width of what stood in them before masking, so runs of spaces are made two.
"""

import re
import shlex
import subprocess
from pathlib import Path

MASKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"(resourceVersion: )\S+", r"\1<version>"),
        (r"\b\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} [+-]\d{4}", "<date>"),
        (r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "<date>"),
        (r"\b\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d+ [+-]\d{4}", "<date>"),
        (r"\b(LIVE|MERGED)-\d+", r"\1"),
        (r"\b10\.\d+\.\d+\.\d+\b", "<address>"),
        (r"\S+ \(x\d+ over [^)]*\)", "<age>"),
        (r"(?<=[\s(])(?<!for )((\d+[dhms]){1,2}|<invalid>|<unknown>|just now)(?= ago|\s*$|\s)", "<age>"),
        (r"^@@ -[^@]* @@\n(.+\n)+\n?", ""),
        (r"\.( no new claims to deallocate,)? preemption: .*$", "."),
        (r" {2,}", "  "),
        (r" +$", ""),
    )
)


def masked(text: str) -> str:
    """The text without what differs between two runs."""
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text


class Transcript:
    """Runs kubectl and keeps what it prints."""

    def __init__(self, kubectl: Path, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self._command = [str(kubectl), "--kubeconfig", str(kubeconfig), "--namespace", namespace]
        self._folder = folder
        self._entries: list[str] = []

    @property
    def text(self) -> str:
        """All that was typed and printed so far."""
        return "\n".join(self._entries)

    def title(self, text: str) -> None:
        """A line between the commands, for readers."""
        self._entries.append(f"# {text}\n")

    def run(self, line: str) -> None:
        """Runs a command line after the word kubectl, and keeps it with its output and exit code."""
        finished = subprocess.run(
            [*self._command, *shlex.split(line)],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        printed = masked(finished.stdout + finished.stderr)
        code = f"(exit code {finished.returncode})\n" if finished.returncode else ""
        self._entries.append(f"$ kubectl {line}\n{printed}{code}")

    def write(self, name: str, content: str) -> None:
        """A manifest that later commands name."""
        (self._folder / name).write_text(content)
