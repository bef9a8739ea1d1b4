"""Which APIs pod groups may come from: Kubernetes' own by its feature gate, others by the configuration."""

from kscheduler.config.loader import LoadedConfig
from kscheduler.state.pod_groups.group_apis import KUBERNETES, KUBERNETES_WITH_POLICY, OTHER_APIS, GroupAPI

GATE = "GenericWorkload"
POLICY_GATE = "PodGroupPreemptionPolicy"


def group_apis(config: LoadedConfig) -> tuple[GroupAPI, ...]:
    """The APIs in the order in which a pod's group is looked for; none: every pod is by itself."""
    return (*_own(config), *(OTHER_APIS[name] for name in config.configuration.pod_group_apis))


def _own(config: LoadedConfig) -> tuple[GroupAPI, ...]:
    if not config.gates.enabled(GATE):
        return ()
    return (KUBERNETES_WITH_POLICY if config.gates.enabled(POLICY_GATE) else KUBERNETES,)
