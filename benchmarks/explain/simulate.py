"""What a simulation costs: `python -m benchmarks.explain.simulate`.

A cluster in process, a quarter full, and new pods of twenty classes; the objects are decoded already. Seconds of CPU
time from the objects to the answer, the copy of the cluster included.
"""

import argparse
import json
import time

from benchmarks.explain.suggestions import cluster, pod_tree
from kscheduler.scenario.scenario import parse_scenario
from kscheduler.simulate.run_simulation import run_simulation
from kscheduler.simulate.simulation_plan import SimulationPlan


def main() -> None:
    """Print a line per round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    objects = cluster(args.nodes, args.pods, cpu="2")
    line = json.dumps({"objects": objects, "pod": pod_tree("x", "1", 1)})
    scenario = parse_scenario(line.encode(), "benchmark:1")
    new = tuple(
        parse_scenario(json.dumps({"pod": pod_tree(f"new-{number}", "500m", number % 20)}).encode(), "benchmark:2").pod
        for number in range(args.new)
    )
    print(f"{args.new} new pods, {args.nodes} nodes, {args.pods} pods; s of CPU")
    for _ in range(args.rounds):
        began = time.process_time()
        answer = run_simulation(SimulationPlan(scenario.objects, scenario.config, "benchmark", new_pods=new))
        took = time.process_time() - began
        print(f"{took:6.2f}  {len(answer.placed)} placed, {len(answer.waiting)} pending")


if __name__ == "__main__":
    main()
