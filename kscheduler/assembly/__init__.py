"""One assembly: cache, queue, profiles, handlers and scheduler are built and joined here, and nowhere else.

The service, the benchmarks, what-if and the tests run the same parts. They differ in their ports: what binds a pod,
evicts a victim and writes a condition, and which clock is used.

    ports            what a scheduler needs from outside; each port is documented with its default
    unconnected      those defaults
    profiles_over    a cache and ports -> a Handle -> profiles that can decide; all that what-if needs
    followed_groups  which APIs pod groups may come from
    pod_classes      whether like pods share a verdict (`KSCHEDULER_CLASSES`)
    compiled configuration          all that follows from a configuration: drafted beside the one in force, adopted in
    one step assembled        everything: the profiles together with queue, evictions, failures, scheduler and handlers

Limits: nothing here runs, and every task is owned by the `run` method of a part. The caller starts the parts and adds
its own workers, informers and clients (`app.parts` does so for the service).
"""

from kscheduler.assembly.assembled import Assembly
from kscheduler.assembly.compiled_configuration import ApplyResult, CompiledConfiguration, group_apis
from kscheduler.assembly.ports import Ports
from kscheduler.assembly.profiles_over import handle_over, profiles_over

__all__ = ["ApplyResult", "Assembly", "CompiledConfiguration", "Ports", "group_apis", "handle_over", "profiles_over"]
