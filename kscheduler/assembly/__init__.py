"""One assembly: cache, queue, profiles, handlers and scheduler are built and joined here, and nowhere else.

The service, the benchmarks, what-if and the tests run the same parts. They differ in their ports: what binds a pod,
evicts a victim and writes a condition, and which clock is used.

    ports                   what a scheduler needs from outside; each port is documented with its default
    profiles_over           a cache and ports -> a Handle -> profiles that can decide; all that explain needs
    configuration_checks    whether they can be built, before a configuration is taken
    compiled_configuration  all that follows from a configuration: drafted beside the one in force, applied in one step
    writers                 evictions and claims, from ports and parts
    assembled               everything: the profiles together with queue, evictions, failures, scheduler and handlers
    configured              configurations, read from files with the plugins that they name
    plugin_loading          where the plugins of a configuration come from, as a registry
    plugin_files            a plugin's file, checked and run
    declared_plugins        the plugins of a module; `class_factory` builds a class by the names of its parameters
    hanging_imports         what is logged while an import does not end

Limits: nothing here runs, and every task is owned by the `run` method of a part. The caller starts the parts and adds
its own workers, informers and clients (`service.parts` does so for the service).
"""

from kscheduler.assembly.assembled import Assembly
from kscheduler.assembly.compiled_configuration import (
    ApplyResult,
    CompiledConfiguration,
    configured_kinds,
    group_apis,
    topology_kinds,
)
from kscheduler.assembly.ports import Ports
from kscheduler.assembly.profiles_over import handle_over, profiles_over

__all__ = [
    "ApplyResult",
    "Assembly",
    "CompiledConfiguration",
    "Ports",
    "configured_kinds",
    "group_apis",
    "handle_over",
    "profiles_over",
    "topology_kinds",
]
