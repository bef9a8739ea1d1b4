"""One assembly: cache, queue, profiles, handlers and scheduler are built and joined here, and nowhere else.

The service, the benchmarks, what-if and the tests run the same parts. They differ in their ports: who binds a pod, who
takes a victim away, where a condition is written, whose clock it is.

    ports            what a scheduler needs from outside, each port documented with what stands in where there is none
    unconnected      those stand-ins
    profiles_over    a cache and ports -> a Handle -> profiles that can decide; what-if needs no more than this
    pod_classes      whether pods that are alike share a judgement (`KSCHEDULER_CLASSES`)
    assembled        everything: these profiles, and queue, evictions, failures, scheduler and handlers with them

Limits: nothing in here runs, and nothing owns a task that `run` of a part does not own. Whoever assembles starts the
parts and adds workers, informers and clients of its own (`app.parts` does for the service).
"""

from kscheduler.assembly.assembled import Assembly
from kscheduler.assembly.ports import Ports
from kscheduler.assembly.profiles_over import handle_over, profiles_over

__all__ = ["Assembly", "Ports", "handle_over", "profiles_over"]
