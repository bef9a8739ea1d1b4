"""Log lines about resources whose list or watch fails while the API server answers everybody else.

The problem: a missing RBAC rule, a broken conversion webhook or an aggregated API without its server fail one resource,
each try of its reflector fails alike, and seventeen reflectors may fail for one reason. The idea: once a second their
problems are looked at together, and one line names all resources that fail for one reason, once a minute. While
everything fails that has one reason, `client.reachability` tells it, and nothing is said here.

Pure: time comes in as an argument, in monotonic seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kscheduler.client.reachability import DOUBT_SECONDS, LINE_SECONDS, LogLine
from kscheduler.logs.throttle import Throttle

_ADVICE: Final = {
    "forbidden": "RBAC must grant verbs list and watch on these resources to this identity, as the ClusterRole in "
    "deploy/manifests does; what is built on them is not decided from news meanwhile",
    "server error": "the API server fails for these resources alone: of a custom resource look at its conversion "
    "webhook, of an aggregated API at its APIService, of others at the API server's log",
    "refused by the server": "the API server does not take our list or watch: is a proxy in between that changes it",
    "garbled": "what comes is no watch event: look at proxies in between",
    "very short watch": "the API server ends the watch at once: look at its log, and at proxies in between",
    "too many requests": "the API server sheds load: look at its priority levels (flowcontrol.apiserver.k8s.io)",
}
_LONGEST_BACKOFF_SECONDS: Final = 70.0
_OTHER_ADVICE: Final = "the scheduler goes on with what it saw last of these resources, and tries again"


@dataclass(slots=True)
class _Standing:
    reason: str
    since: float
    is_said: bool = False
    believed_from: float = float("-inf")
    """What came of an outage stands until the reflector's next try, which its back-off may put off for a minute."""


class ResourceTroubles:
    """What was said about which resource."""

    def __init__(self) -> None:
        self._standing: dict[str, _Standing] = {}
        self._throttles: dict[tuple[str, str], Throttle] = {}
        """By resource and reason."""

    def lines(
        self, problems: Mapping[str, str], now: float, *, is_all_in_trouble: bool, is_outage: bool = False
    ) -> list[LogLine]:
        """What there is to log. `problems`: resource to `reason: detail`, those alone that have one.

        `is_all_in_trouble`: everything fails, or may; `is_outage`: it does, beyond doubt.
        """
        over = [resource for resource in self._standing if resource not in problems]
        lines = self._ended(over, now)
        for resource, problem in problems.items():
            reason = problem.partition(":")[0]
            known = self._standing.get(resource)
            if known is None:
                self._standing[resource] = _Standing(reason, now)
            else:
                known.reason = reason
        if is_outage:
            for standing in self._standing.values():
                standing.believed_from = now + _LONGEST_BACKOFF_SECONDS
        return lines if is_all_in_trouble else lines + self._due(problems, now)

    def _ended(self, resources: list[str], now: float) -> list[LogLine]:
        said: list[str] = []
        longest = 0.0
        for resource in resources:
            standing = self._standing.pop(resource)
            if standing.is_said:
                said.append(resource)
                longest = max(longest, now - standing.since)
        if not said:
            return []
        return [LogLine("info", "list_or_watch_works_again", {"resources": sorted(said), "seconds": round(longest)})]

    def _due(self, problems: Mapping[str, str], now: float) -> list[LogLine]:
        by_reason: dict[str, list[str]] = {}
        for resource, standing in self._standing.items():
            is_sure = now - standing.since >= DOUBT_SECONDS and now >= standing.believed_from
            if is_sure and self._throttle(resource, standing.reason).admits(now):
                by_reason.setdefault(standing.reason, []).append(resource)
        return [self._line(reason, sorted(resources), problems, now) for reason, resources in by_reason.items()]

    def _throttle(self, resource: str, reason: str) -> Throttle:
        return self._throttles.setdefault((resource, reason), Throttle(LINE_SECONDS))

    def _line(self, reason: str, resources: list[str], problems: Mapping[str, str], now: float) -> LogLine:
        longest = 0.0
        for resource in resources:
            standing = self._standing[resource]
            standing.is_said = True
            longest = max(longest, now - standing.since)
        _, _, detail = problems[resources[0]].partition(": ")
        fields: dict[str, object] = {"resources": resources, "reason": reason, "seconds": round(longest), "err": detail}
        return LogLine("error", "list_or_watch_fails", {**fields, "advice": _ADVICE.get(reason, _OTHER_ADVICE)})
