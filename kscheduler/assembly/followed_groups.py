"""Which APIs pod groups may come from: Kubernetes' own by its feature gate, others by the configuration."""

from kscheduler.config.loader import LoadedConfig
from kscheduler.state.pod_groups.group_apis import KUBERNETES, OTHER_APIS, GroupAPI

GATE = "GenericWorkload"


def group_apis(config: LoadedConfig) -> tuple[GroupAPI, ...]:
    """The APIs in the order in which a pod's group is looked for; none: every pod is by itself."""
    own = (KUBERNETES,) if config.gates.enabled(GATE) else ()
    return (*own, *(OTHER_APIS[name] for name in config.configuration.pod_group_apis))
