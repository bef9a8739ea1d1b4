"""What an answer says besides about plugins that are not in-tree: where their code is, and who may hold the pod.

Anyone who reads that a plugin has rejected nodes knows kube-scheduler's plugins, or finds them in its documentation. Of
a policy of one's own only its file says what it means.
"""

from collections.abc import Iterator
from typing import Any

from kscheduler.framework.per_node_declaration import place_of
from kscheduler.framework.plugin import Plugin
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.supervision.supervised import unsupervised


def source_of(profile: Profile | None, name: str, method: str = "filter") -> str:
    """`FILE:LINE` of the code that the plugin rejects nodes with; empty for an in-tree plugin."""
    plugin = _own(profile, name)
    if plugin is None:
        return ""
    written_at = getattr(plugin, "written_at", "")  # of a function
    return written_at or place_of(getattr(type(plugin), method, None) or type(plugin).__init__)


def _own(profile: Profile | None, name: str) -> Any:
    """The plugin if the profile has it and it is not in-tree, otherwise `None`."""
    if profile is None or name not in profile.traits or profile.traits[name].is_in_tree:
        return None
    found: Plugin | None = next((plugin for plugin in profile.instances if plugin.name == name), None)
    return None if found is None else unsupervised(found)


def permit_lines(decision: Decision) -> Iterator[str]:
    """Who may hold the pod once it has a node: no condition tells of that."""
    profile = decision.profile
    own = [plugin.name for plugin in profile.permit if _own(profile, plugin.name)] if profile is not None else []
    if own:
        yield (
            f"before it is bound, Permit plugin{'s' if len(own) > 1 else ''} {', '.join(own)} may hold it or "
            "reject it: the service lists whom they hold in /debug/queue (queue: permit) and GET /waiting-pods"
        )
