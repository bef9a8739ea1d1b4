"""Log lines about resources whose list or watch fails while other requests succeed.

The problem: a missing RBAC rule, a broken conversion webhook or an aggregated API without its server make a resource
fail at each try of its reflector, and many reflectors may fail for the same reason. The idea: the problems are
examined together once a second, and one line a minute names all resources that fail for the same reason. While all
requests fail `client.reachability` logs the reason, and nothing is logged here.

Pure: time comes in as an argument, in monotonic seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kscheduler.client.outage_cause import Cause, advice_about
from kscheduler.client.reachability import DOUBT_SECONDS, LINE_SECONDS, LogLine
from kscheduler.informers.reflector import LONGEST_WAIT_SECONDS
from kscheduler.telemetry.logs.storms import RecurringTrouble

_ADVICE: Final = {
    "forbidden": "RBAC must grant verbs list and watch on these resources to this identity, as the ClusterRole in "
    "deploy/kscheduler.yaml does; until then decisions use what was last seen of them",
    "server error": "the API server fails for these resources alone: of a custom resource look at its conversion "
    "webhook, of an aggregated API at its APIService, of others at the API server's log",
    "refused by the server": "the API server does not accept our list or watch: does a proxy in between change it",
    "proxy": "something answers for the API server without asking it: look at proxies and load balancers in between",
    "tls": "TLS with the API server fails: look at certificates and versions at both ends",
    "garbled": "the stream is not a watch: look at proxies in between",
    "very short watch": "the API server ends the watch at once: look at its log, and at proxies in between",
    "too many requests": "the API server sheds load: look at its priority levels (flowcontrol.apiserver.k8s.io)",
}
_LONGEST_BACKOFF_SECONDS: Final = LONGEST_WAIT_SECONDS + 1.0
_OTHER_ADVICE: Final = "the scheduler goes on with what it saw last of these resources, and tries again"


@dataclass(slots=True)
class _LoggedTrouble:
    reason: str
    since: float
    is_logged: bool = False
    believed_from: float = float("-inf")
    """A problem left by an outage stands until the reflector's next try, the longest backoff later."""


class ResourceTroubles:
    """The problems of each resource, and when they were logged."""

    def __init__(self) -> None:
        self._standing: dict[str, _LoggedTrouble] = {}
        self._recurring: dict[tuple[str, str], RecurringTrouble] = {}
        """By resource and reason."""

    def lines(
        self,
        problems: Mapping[str, str],
        retries: Mapping[str, float],
        now: float,
        *,
        is_all_in_trouble: bool,
        is_outage: bool = False,
    ) -> list[LogLine]:
        """The lines to log. `problems`: resource to `reason: detail`, for resources with a problem.

        `retries`: seconds until the next try, of those that wait for it.

        `is_all_in_trouble`: all requests fail, or may; `is_outage`: they do, beyond doubt.
        """
        over = [resource for resource in self._standing if resource not in problems]
        lines = self._ended(over, now)
        for resource, problem in problems.items():
            reason = problem.partition(":")[0]
            standing = self._standing.get(resource)
            if standing is None:
                self._standing[resource] = _LoggedTrouble(reason, now)
            else:
                standing.reason = reason
        if is_outage:
            for standing in self._standing.values():
                standing.believed_from = now + _LONGEST_BACKOFF_SECONDS
        return lines if is_all_in_trouble else lines + self._due(problems, retries, now)

    def _ended(self, resources: list[str], now: float) -> list[LogLine]:
        recovered: list[str] = []
        longest = 0.0
        for resource in resources:
            standing = self._standing.pop(resource)
            if standing.is_logged or self._is_sure(standing, now):
                self._trouble(resource, standing.reason).ends()
            if standing.is_logged:
                recovered.append(resource)
                longest = max(longest, now - standing.since)
        if not recovered:
            return []
        return [
            LogLine("info", "list_or_watch_works_again", {"resources": sorted(recovered), "seconds": round(longest)})
        ]

    def _due(self, problems: Mapping[str, str], retries: Mapping[str, float], now: float) -> list[LogLine]:
        by_reason: dict[str, list[str]] = {}
        for resource, standing in self._standing.items():
            if self._is_sure(standing, now) and self._trouble(resource, standing.reason).is_due(now):
                by_reason.setdefault(standing.reason, []).append(resource)
        return [
            self._line(reason, sorted(resources), problems, retries, now) for reason, resources in by_reason.items()
        ]

    @staticmethod
    def _is_sure(standing: _LoggedTrouble, now: float) -> bool:
        return now - standing.since >= DOUBT_SECONDS and now >= standing.believed_from

    def _trouble(self, resource: str, reason: str) -> RecurringTrouble:
        return self._recurring.setdefault((resource, reason), RecurringTrouble(LINE_SECONDS))

    def _line(
        self,
        reason: str,
        resources: list[str],
        problems: Mapping[str, str],
        retries: Mapping[str, float],
        now: float,
    ) -> LogLine:
        longest = 0.0
        for resource in resources:
            standing = self._standing[resource]
            standing.is_logged = True
            longest = max(longest, now - standing.since)
        _, _, detail = problems[resources[0]].partition(": ")
        fields: dict[str, object] = {"resources": resources, "reason": reason, "seconds": round(longest), "err": detail}
        untold = [self._trouble(resource, reason).take_untold().get("times_since", 0) for resource in resources]
        if any(untold):
            fields["times_since"] = sum(untold)
        waits = [retries[resource] for resource in resources if resource in retries]
        if waits:
            fields["tried_again_in_seconds"] = round(max(waits), 1)
        return LogLine("error", "list_or_watch_fails", {**fields, "advice": _advice_for(reason)})


def _advice_for(reason: str) -> str:
    if reason in _ADVICE or reason not in set(Cause):
        return _ADVICE.get(reason, _OTHER_ADVICE)
    return advice_about(Cause(reason))
