"""A configuration for each policy: kube-scheduler's filters, DeviceShares, and the policy's score alone."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kscheduler.assembly.configured import ConfigurationReader, Configured
from kscheduler.config.types import API_VERSION, FIRST_IN_ORDER, HASH, KIND
from kscheduler.sweep.trace.trace_objects import GPU, TraceTask, as_typical_pods

SCHEDULER: Final = "openb"
# Ours, and FragmentationAware as in the paper.
OWN, FGD = "FragmentationAware", "FGD"
POLICIES: Final = ("Random", "DotProd", "GpuPacking", "BestFit", FGD, OWN)

# In compared_policies.py.
_FILE: Final = Path(__file__).with_name("compared_policies.py")
_OF_FILE: Final = ("DotProd", "GpuPacking")

Tree = dict[str, Any]

_BEST_FIT: Final[Tree] = {
    "name": "BestFit",
    "args": {"resources": [{"name": "cpu", "largest": "128"}, {"name": GPU, "largest": "8"}], "devices": {}},
}
_SCORES: Final[dict[str, list[Tree]]] = {
    "Random": [{"name": "RandomScore"}],
    FGD: [{"name": "FragmentationAware"}],
    OWN: [{"name": "FragmentationAware", "weight": 101}, {"name": "BestFit", "weight": 1}],
}


def trace_policy(policy: str, mix: Iterable[tuple[TraceTask, int]], seed: int) -> Configured:
    """One of `POLICIES`. `mix`: the workload's typical tasks, with their counts; `seed`: of Random."""
    reader = ConfigurationReader(plugins=(str(_FILE),))
    return reader.read_bytes(_configuration(policy, as_typical_pods(mix), seed), policy)


def _configuration(policy: str, typical_pods: list[Tree], seed: int) -> bytes:
    """A KubeSchedulerConfiguration."""
    args: list[Tree] = [_BEST_FIT, {"name": "RandomScore", "args": {"seed": seed}}]
    if policy in (FGD, OWN):
        fragments: Tree = {"typicalPods": typical_pods, "strandedWeight": 0.0 if policy == FGD else 1.0}
        args.append({"name": "FragmentationAware", "args": fragments})
    if policy in _OF_FILE:
        args.append({"name": policy, "timeBudget": "2s"})  # the longest: a busy machine ends no call
    scores = _SCORES.get(policy, [{"name": policy}])
    names = ["DeviceShares", *(each["name"] for each in scores), *(("AnyDevice",) if policy == "Random" else ())]
    plugins: Tree = {
        "multiPoint": {
            "enabled": [{"name": name} for name in names],
            "disabled": [{"name": "DefaultPreemption"}],
        },
        "score": {"enabled": scores, "disabled": [{"name": "*"}]},
    }
    profile: Tree = {
        "schedulerName": SCHEDULER,
        "percentageOfNodesToScore": 100,
        "tieRule": HASH if policy == "Random" else FIRST_IN_ORDER,
        "plugins": plugins,
        "pluginConfig": args,
    }
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}).encode()
