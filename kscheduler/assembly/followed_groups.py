"""Which APIs pod groups may come from: Kubernetes' own by its feature gate, others by the configuration."""

from kscheduler.config.loader import LoadedConfig
from kscheduler.state.pod_groups.group_apis import OTHER_APIS, GroupAPI, kubernetes_apis

GATE = "GenericWorkload"
POLICY_GATE = "PodGroupPreemptionPolicy"
COMPOSITE_GATE = "CompositePodGroup"


def group_apis(config: LoadedConfig) -> tuple[GroupAPI, ...]:
    """The APIs in the order in which a pod's group is looked for; none: every pod is by itself."""
    return (*_own(config), *(OTHER_APIS[name] for name in config.configuration.pod_group_apis))


def _own(config: LoadedConfig) -> tuple[GroupAPI, ...]:
    if not config.gates.enabled(GATE):
        return ()
    enabled = config.gates.enabled
    return kubernetes_apis(has_policy=enabled(POLICY_GATE), has_composites=enabled(COMPOSITE_GATE))
