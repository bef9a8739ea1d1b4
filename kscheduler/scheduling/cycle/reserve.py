"""Reserve and Unreserve: each plugin has its turn, for a pod by itself and for the members of a group."""

from kscheduler.framework.binding_annotations import BindingAnnotations
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.attempt_calls import call_reserve, call_unreserve
from kscheduler.state.cache import Cache


def run_reserve(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """One plugin after the other, until one does not succeed."""
    for plugin in profile.reserve:
        status = call_reserve(plugin, profile.listener, state, pod, node_name)
        if not status.is_success:
            return status
    return SUCCESS


def annotate(cache: Cache, state: CycleState, pod: PodInfo) -> None:
    """After Reserve, if it has written `BindingAnnotations`: the assumed pod counts with them."""
    cache.annotate(pod.uid, state.read(BindingAnnotations).annotations)


def run_unreserve(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> None:
    """All plugins with Reserve, in reverse order, whether they have reserved or not."""
    for plugin in reversed(profile.reserve):
        call_unreserve(plugin, profile.listener, state, pod, node_name)
