"""`python -m benchmarks.hand_made`: each script and its policy in turn, two to three minutes; prints the table.

A row is a run: the same nodes, the same 62 pods. Three Bindings are refused; the scheduler ends, pods come while it is
away, and it starts again.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.hand_made.play import Run, play
from benchmarks.hand_made.scripts import SCRIPTS
from benchmarks.hand_made.world import OPEN

COLUMNS = (
    *(
        "policy",
        "who",
        "a b c d e f / cordoned small tainted",
        "no disk",
        "not apart",
        "wrong type",
        "taint, cordon",
        "overfull nodes",
    ),
    *("lost until restarted", "never placed", "$/h", "CPU s: start + pods", "requests"),
)
# The only policy that reads the annotation for a type.
TYPED = "annotation-match"


def row(run: Run) -> str:
    """A line of the table."""
    audit = run.audit
    who = "by hand" if run.is_hand_made else "kscheduler"
    others = [name for name in audit.by_node if name not in OPEN]
    nodes = " / ".join(" ".join(str(audit.by_node[name]) for name in names) for names in (OPEN, others))
    wrong_type = audit.type if run.policy == TYPED else ""
    forgotten = (audit.selector, audit.apart, wrong_type, audit.taint, audit.overfull, run.lost, audit.never)
    cpu = f"{run.start_cpu_seconds:.2f} + {run.cpu_seconds:.2f}"
    cells = (run.policy, who, nodes, *forgotten, f"{audit.dollars:.2f}", cpu, run.requests)
    return f"| {' | '.join(map(str, cells))} |"


async def compare(policies: Sequence[str]) -> None:
    """Run and print."""
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    with tempfile.TemporaryDirectory() as folder:
        for policy in policies:
            for is_hand_made in (True, False):
                print(row(await play(policy, is_hand_made=is_hand_made, folder=Path(folder))), flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hand_made", description=__doc__)
    parser.add_argument("policies", nargs="*", choices=[[], *SCRIPTS], help="all, if none is named")
    asyncio.run(compare(parser.parse_args().policies or list(SCRIPTS)))


if __name__ == "__main__":
    main()
