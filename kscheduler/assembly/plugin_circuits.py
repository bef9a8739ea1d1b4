"""The circuits of all plugins in force: who hears of their changes, and when a profile is exchanged for it.

A plugin that fails has its circuit opened by its profile's `Supervisor`, often in the middle of a decision. Here that
is counted, logged and told by an Event; the profile itself is exchanged after the decision, when the service asks for
the profiles that have changed (`Assembly.draft_quarantines`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from kscheduler.aio.clock import Alarm, Clock
from kscheduler.api.meta import rfc3339
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.quarantined_profiles import QuarantineAnnouncements, with_quarantines
from kscheduler.scheduling.reports import Reporter
from kscheduler.scheduling.supervision.circuit_breaker import CircuitState
from kscheduler.scheduling.supervision.held_pods import HeldPods
from kscheduler.scheduling.supervision.holds import SHORTEST_SECONDS, ReportedHold
from kscheduler.scheduling.supervision.supervisor import Quarantine, Supervisor
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)


class PluginCircuits:
    """Implements `CircuitObserver` for the supervisors of all profiles."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        observations: Observations,
        reporter: Reporter,
        clock: Clock,
        on_hold_end: Callable[[str], None],
        on_quarantine: Callable[[], None] | None,
    ) -> None:
        """`profiles`: those in force, by scheduler name; the table changes when a configuration is applied.

        `on_hold_end` is called with a namespace for whose pods plugins are called again. `on_quarantine`: as for
        `Assembly`.
        """
        self._profiles, self._observations, self._clock = profiles, observations, clock
        self._announcements = QuarantineAnnouncements(reporter, clock.monotonic)
        self._on_quarantine = on_quarantine
        self._alarms: dict[tuple[str, str], Alarm] = {}
        """By profile and plugin: when an open circuit is tried again."""
        self.held_pods = HeldPods(self._supervisor_of, self._supervisors, on_hold_end)

    # --- what supervisors say -----------------------------------------------------------------------------------------

    def circuit_changed(self, supervisor: Supervisor, quarantine: Quarantine, pod: PodInfo | None) -> None:
        """Profiles are exchanged later: this may be in the middle of a decision."""
        if not self._is_in_force(supervisor):
            return  # an attempt that began under a configuration before this one
        self._observations.plugin_circuit_changed(quarantine.plugin, quarantine.profile, quarantine.state.value)
        self._announcements.announce(quarantine, pod)
        if self._on_quarantine is not None and quarantine.state is not CircuitState.HALF_OPEN:
            self._on_quarantine()  # half-open circuits are brought about by `changed_profiles` itself
        if quarantine.state is CircuitState.OPEN:
            self.trial_due(supervisor, quarantine.plugin, supervisor.circuits[quarantine.plugin].seconds_to_trial())

    def held_back(self, supervisor: Supervisor, plugin: str, held: ReportedHold) -> None:
        """A plugin took too long for a pod, or for many pods of one namespace."""
        self.held_pods.are_any = True
        if held.seconds <= SHORTEST_SECONDS:
            return  # once may be chance, and `plugin_failed` has told it
        self._observations.plugin_was_held_back(plugin, supervisor.profile)
        others = "other namespaces" if held.is_of_namespace else "its namespace, too,"
        _log.warning(
            "plugin_held_back",
            plugin=plugin,
            profile=supervisor.profile,
            namespace=held.namespace,
            pods=list(held.pods),
            whole_namespace=held.is_of_namespace,
            seconds=held.seconds,
            until=rfc3339(held.until),
            err=held.cause,
            then=f"until then the plugin is not called for {'its pods' if held.is_of_namespace else 'it'}; "
            f"for pods of {others} it is",
        )

    def trial_due(self, supervisor: Supervisor, plugin: str, seconds: float) -> None:
        """In so many seconds, an open circuit is due to be tried."""
        if self._on_quarantine is None or not self._is_in_force(supervisor):
            return
        before = self._alarms.pop((supervisor.profile, plugin), None)
        if before is not None:
            before.cancel()
        self._alarms[supervisor.profile, plugin] = self._clock.call_later(seconds, self._on_quarantine)

    # --- what is in force ---------------------------------------------------------------------------------------------

    def changed_profiles(self) -> dict[str, Profile]:
        """The profiles whose quarantines have begun or ended, or are due to be tried: each as it should be now."""
        changed: dict[str, Profile] = {}
        for profile in self._profiles.values():
            supervisor = profile.supervisor
            if supervisor is not None:
                supervisor.half_open_what_is_due()
                now = with_quarantines(profile, supervisor.quarantines.values())
                if now is not profile:
                    changed[profile.name] = now
        return changed

    def quarantines(self) -> Sequence[Quarantine]:
        """The plugins that are quarantined, by profile: their circuits are open or half-open."""
        return [each for found in self._supervisors() for each in found.quarantines.values()]

    def supervised(self) -> Mapping[tuple[str, str, str], float]:
        """By plugin that is not in-tree, its profile and policy: 1 until its circuit is closed again, otherwise 0."""
        return {
            (plugin, found.profile, limits.on_failure.value): float(plugin in found.quarantines)
            for found in self._supervisors()
            for plugin, limits in found.limits.items()
        }

    def mute_reports(self) -> None:
        """In a copy of the process: failures count for nothing, since no copy has the loop that exchanges a profile."""
        for found in self._supervisors():
            found.mute_reports()

    def _supervisor_of(self, scheduler_name: str) -> Supervisor | None:
        profile = self._profiles.get(scheduler_name)
        return None if profile is None else profile.supervisor

    def _supervisors(self) -> Iterator[Supervisor]:
        return (found for profile in self._profiles.values() if (found := profile.supervisor) is not None)

    def _is_in_force(self, supervisor: Supervisor) -> bool:
        return self._supervisor_of(supervisor.profile) is supervisor
