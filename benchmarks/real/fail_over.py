"""Fail-overs of two replicas on a real API server, kscheduler beside kube-scheduler: `make soak`.

All groups (a scheduler and a kind of fault each) share one API server and play their rounds at the same time; each has
its own replicas, Lease, nodes and pods. What is measured is mostly waiting for leases, so the groups hardly disturb
each other; what they bind is 5 pods a second each. Everything is judged by the API server's audit log. With the default
lease a round of each kind takes about half a minute.
"""

import argparse
import sys
from pathlib import Path

from tests.controlplane import binaries
from tests.e2e.election.replicas import FAULTS, Timing
from tests.e2e.election.rig import rig
from tests.e2e.election.rounds import Outcome, table

# Seconds from the fault to the first Binding of the next leader that kscheduler must keep with the default lease.
LIMITS = {"sigterm": 3.0, "sigkill": 17.0, "sigstop": 20.0, "cut": 20.0}
# Between two Bindings during a rolling update under 50 pods a second.
LONGEST_GAP_SECONDS = 3.0
PROGRAMS = ("kscheduler", "kube-scheduler")


def problems(outcomes: list[Outcome]) -> list[str]:
    """What kscheduler must not do, and what took it too long."""
    ours = [outcome for outcome in outcomes if outcome.program == "kscheduler"]
    faults = [f"{outcome.fault}: {line}" for outcome in ours for line in outcome.faults]
    late = [
        f"{outcome.fault}: {seconds:.2f} s, more than {LIMITS[outcome.fault]:g} s"
        for outcome in ours
        for seconds in outcome.seconds
        if seconds > LIMITS[outcome.fault]
    ]
    return [*faults, *late]


def main() -> int:
    """Play, print the table, and fail for what must not happen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--kinds", nargs="+", choices=sorted(FAULTS), default=list(FAULTS))
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--rolls", type=int, default=3, help="rolling updates of kscheduler, after the fail-overs")
    parser.add_argument("--details", type=Path, help="a file for each fail-over's seconds and each fault")
    args = parser.parse_args()
    with rig(binaries.find()) as running:
        outcomes = running.play(args.programs, args.kinds, args.rounds, Timing()) if args.rounds else []
        rolls = {program: [running.roll(program) for _ in range(args.rolls)] for program in args.programs}
    print(table(outcomes))
    for program, updates in rolls.items():
        gaps = ", ".join(f"{update.longest_gap:.2f} s" for update in updates)
        print(f"\n{program}: the longest gap between two bindings in each of {len(updates)} rolling updates: {gaps}")
    if args.details:
        lines = [
            f"{one.program} {one.fault}\n  " + "\n  ".join([*(f"{s:.3f}" for s in one.seconds), *one.faults])
            for one in outcomes
        ]
        args.details.write_text("\n".join(lines) + "\n")
    ours = rolls.get("kscheduler", [])
    found = [*problems(outcomes), *(line for update in ours for line in update.faults)]
    found += [f"rolling update: {one.longest_gap:.2f} s" for one in ours if one.longest_gap > LONGEST_GAP_SECONDS]
    print(*found[:50], sep="\n", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
