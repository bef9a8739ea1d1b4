"""How long the first pod of a claim template holds the event loop: `python -m benchmarks.devices.first_pod`.

Nodes with ten devices each, and a claim whose request has a CEL selector. The pod is decided about as the service does:
a cycle with patience, slices beside it, the cycle that decides; and beside that in one cycle. Milliseconds.
"""

import argparse
import time
from collections.abc import Callable

from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.aio.collector import setting_aside
from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.kinds import RESOURCE_SLICES
from kscheduler.assembly import Assembly, Ports
from kscheduler.bench.devices import DEVICES, DRIVER, SELECTOR, device
from kscheduler.config.loader import default_configuration
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers.transform import default_transform
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.attempt.long_searches import SLICE_SECONDS
from kscheduler.scheduling.cycle.schedule import schedule

NAME = "kscheduler"


def assembly_of(nodes: int, *, has_serials: bool = False) -> Assembly:
    """A scheduler that knows nodes, devices and one claim. With serial numbers no two devices are equal."""
    assembly = Assembly(default_configuration(NAME), registry(), Ports(), REAL_CLOCK)
    cache, share = assembly.cache, default_transform(RESOURCE_SLICES.resource)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    cache.devices.put_class(convert({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}, DeviceClass))
    for number in range(nodes):
        name = f"node-{number:05}"
        offered = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}
        cache.add_node(convert({"metadata": {"name": name}, "status": offered}, Node))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [device(place) for place in range(DEVICES)]
        for each in devices if has_serials else ():
            each["attributes"]["serial"] = {"string": f"{name}-{each['name']}"}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices}
        published = convert({"metadata": {"name": f"slice-{name}"}, "spec": spec}, ResourceSlice)
        share(published)  # as its informer does
        cache.devices.put_slice(published)
    request = {"name": "one", "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": SELECTOR}}]}}
    metadata = {"namespace": "default", "name": "claim", "uid": "uid-of-claim"}
    claim = {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
    cache.devices.claims.update(convert(claim, ResourceClaim))
    return assembly


def pod() -> PodInfo:
    """A pod with the claim."""
    spec = {"containers": [{"name": "main"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]}
    metadata = {"namespace": "default", "name": "pod", "uid": "uid-of-pod"}
    return PodInfo(convert({"metadata": metadata, "spec": {"schedulerName": NAME, **spec}}, Pod))


def in_slices(assembly: Assembly) -> list[float]:
    """The milliseconds of each time that the loop is held."""
    held: list[float] = []

    def timed(work: Callable[[], object]) -> object:
        began = time.perf_counter()
        result = work()
        held.append((time.perf_counter() - began) * 1e3)
        return result

    profile = assembly.profiles[NAME]
    while True:
        search_budget = SearchTimeBudget(SLICE_SECONDS)
        timed(lambda given=search_budget: schedule(profile, pod(), assembly.cache, search_budget=given))  # type: ignore[misc]
        rest = search_budget.rest
        if rest is None:
            return held
        while not timed(lambda left=rest: left.run(SLICE_SECONDS)):  # type: ignore[misc]
            pass


def main() -> None:
    """Print a line per round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serials", action="store_true", help="give each device an attribute that no other one has")
    args = parser.parse_args()
    for _ in range(args.rounds):
        sliced, whole = [assembly_of(args.nodes, has_serials=args.serials) for _ in range(2)]
        with setting_aside():  # as the service does
            held = in_slices(sliced)
            began = time.perf_counter()
            schedule(whole.profiles[NAME], pod(), whole.cache)
            at_once = (time.perf_counter() - began) * 1e3
        print(
            f"{args.nodes} nodes: held {len(held)} times, {max(held):.1f} ms at most, {sum(held):.0f} ms in all, "
            f"{held[-1]:.1f} the last cycle; in one cycle {at_once:.0f} ms"
        )


if __name__ == "__main__":
    main()
