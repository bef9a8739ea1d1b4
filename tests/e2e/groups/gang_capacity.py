"""Gangs for scenarios: groups of one of the APIs, their members, what is told of them, and the audit at the end.

The audit asks the API server alone: at rest each gang has as many members on nodes as it needs, or none.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kscheduler.api.releases import VERSION, followed, numbers_of
from tests.controlplane import kube_scheduler
from tests.controlplane.process import POLL_SECONDS, NotReadyError, Process
from tests.controlplane.releases import pinned
from tests.controlplane.rest import Object
from tests.e2e.audit import condition_text
from tests.e2e.scenario import SECONDS, Scenario
from tests.e2e.servers import NAME

LABEL: Final = "scheduling.x-k8s.io/pod-group"
ANNOTATION: Final = "scheduling.k8s.io/group-name"
CONDITION: Final = "PodGroupInitiallyScheduled"


@dataclass(frozen=True)
class GangAPI:
    """An API that has pod groups."""

    name: str
    group_version: str
    fields: dict[str, object]
    """Of the configuration with which kscheduler follows them."""
    gates: str = "GenericWorkload=true"
    """Of schedulers that follow Kubernetes' own."""

    @property
    def is_kubernetes(self) -> bool:
        return self.name == "kubernetes"

    def spec(self, min_count: int | None) -> Object:
        """Of a gang, or, without a number, of a group whose members come one by one."""
        if not self.is_kubernetes:
            return {"minMember": min_count or 1}
        return {"schedulingPolicy": {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}}


KUBERNETES: Final = GangAPI("kubernetes", "scheduling.k8s.io/v1beta1", {})
SCHEDULER_PLUGINS: Final = GangAPI(
    "scheduler-plugins", "scheduling.x-k8s.io/v1alpha1", {"podGroupAPIs": ["scheduler-plugins"]}
)
VOLCANO: Final = GangAPI("volcano", "scheduling.volcano.sh/v1beta1", {"podGroupAPIs": ["volcano"]})
APIS: Final = {api.name: api for api in (KUBERNETES, SCHEDULER_PLUGINS, VOLCANO)}


def followed_with_groups() -> str:
    """The version that is followed on the chosen release, or the first that has pod groups: embedded servers have."""
    return max("1.37", pinned.followed_version(pinned.chosen()), key=numbers_of)


def options(api: GangAPI, program: str, folder: Path, kubeconfig: Path) -> tuple[str, ...]:
    """Flags with which the scheduler follows the groups of this API."""
    if api.is_kubernetes:
        gate = ("--feature-gates", api.gates)
        return (*gate, "--emulated-version", followed_with_groups()) if program == NAME else gate
    whole = kube_scheduler.configuration(kubeconfig, NAME, "application/json") | api.fields
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{api.name}.json"
    path.write_text(json.dumps(whole))
    return ("--config", str(path))


class GangRoom:
    """The gangs of a scenario."""

    def __init__(self, scenario: Scenario, api: GangAPI, folder: Path) -> None:
        self.scenario = scenario
        self.api = api
        self.path = f"/apis/{api.group_version}/namespaces/{scenario.namespace}/podgroups"
        self._folder = folder
        self._needs: dict[str, int] = {}

    def start(self, *, wait_started: bool = False) -> Process:
        """The scheduler under test; it follows the groups of this API."""
        program = self.scenario.program
        flags = options(self.api, program, self._folder, self.scenario.server.identity(program))
        return self.scenario.start_scheduler(*flags, wait_started=wait_started)

    # What users do

    def add_group(self, name: str, min_count: int | None, **fields: object) -> None:
        """The group's object; `fields` are those of its spec."""
        body: Object = {"apiVersion": self.api.group_version, "kind": "PodGroup", "metadata": {"name": name}}
        self.scenario.api.create(self.path, body | {"spec": self.api.spec(min_count) | fields})
        self._needs[name] = min_count or 1

    def add_member(self, group: str, name: str, *, cpu: str = "2", **spec: object) -> None:
        """A pod that names its group as the API wants it."""
        labels, annotations = {}, {}
        if self.api.is_kubernetes:
            spec["schedulingGroup"] = {"podGroupName": group}
        elif self.api.name == "volcano":
            annotations = {ANNOTATION: group}
        else:
            labels = {LABEL: group}
        self.scenario.add_pod(name, cpu=cpu, labels=labels, annotations=annotations, **spec)  # type: ignore[arg-type]

    def add_gang(self, name: str, members: int, min_count: int | None = None, **fields: object) -> None:
        """A group that needs all of its members, or so many, and the members `NAME-0` and so on."""
        self.add_group(name, min_count or members)
        for number in range(members):
            self.add_member(name, f"{name}-{number}", **fields)  # type: ignore[arg-type]

    def delete_member(self, name: str) -> None:
        self.scenario.delete_pod(name)

    def forget(self, name: str) -> None:
        """A gang that a test has taken members from: the audit no longer counts them."""
        del self._needs[name]

    def change_minimum(self, name: str, min_count: int) -> None:
        self.scenario.api.patch(f"{self.path}/{name}", {"spec": self.api.spec(min_count)})
        self._needs[name] = min_count

    # What can be seen

    def names(self) -> list[str]:
        """The groups that were made."""
        return sorted(self._needs)

    def left(self) -> list[Object]:
        """The groups that the API server has."""
        return self.scenario.api.items(self.path)

    def members(self, group: str) -> list[Object]:
        """Pods by the names that `add_gang` gives."""
        return [pod for pod in self.scenario.pods() if pod["metadata"]["name"].rpartition("-")[0] == group]

    def bound(self, group: str) -> list[str]:
        """Names of the members that have a node."""
        return sorted(pod["metadata"]["name"] for pod in self.members(group) if pod["spec"].get("nodeName"))

    def reported_members(self, group: str) -> int:
        """How many members have been told that they wait."""
        texts = [condition_text(pod) for pod in self.members(group) if not pod["spec"].get("nodeName")]
        return sum(text not in ("", "no condition") for text in texts)

    def condition(self, group: str) -> Object:
        """The group's own condition, without its time; empty while nothing is told."""
        found = self.scenario.api.get(f"{self.path}/{group}").get("status", {}).get("conditions", [])
        own = [one for one in found if one["type"] == CONDITION]
        return {key: text for key, text in own[0].items() if key != "lastTransitionTime"} if own else {}

    # What is said, by the version that is followed

    @property
    def _is_of_1_38(self) -> bool:
        server: str = self.scenario.api.get("/version")["gitVersion"]
        version = followed_with_groups() if self.api.is_kubernetes else followed(server) or VERSION
        return numbers_of(version) >= (1, 38)

    def minimum_missed(self, least: int, scheduled: int | None = None) -> str:
        """How the reason begins why too few members have a node, with the number of those that have."""
        subject = "scheduling policy's minimum threshold" if self._is_of_1_38 else "minCount"
        placed = "" if scheduled is None else f": {scheduled} scheduled"
        return f"{subject} ({least}) cannot be satisfied{placed}"

    def reason_of_members(self, group: str, why: str) -> str:
        """How the reason begins of a member that fits by itself."""
        return (
            f'parent pod group "{group}" is unschedulable' if self._is_of_1_38 else f"pod group is unschedulable, {why}"
        )

    def contradiction(self, given: int, wanted: int) -> tuple[str, str]:
        """How the text begins that a member has another priority than its group, and the reason."""
        if self._is_of_1_38:
            text = "all pods in a pod group hierarchy should have the same priority as the root pod group's priority"
            return f"{text}, got {given} ", "PodGroupError"
        text = "all pods in a single pod group should have the same priority as the pod group's priority"
        return f"{text}, got {given} and {wanted}", "SchedulerError"

    # Waiting

    def wait_whole(self, group: str, count: int | None = None) -> None:
        """Returns when so many members, or as many as it needs, have a node, and the group says so.

        kube-scheduler may take that back when it tries the rest, with a copy of the group older than its own write.
        """
        wanted = count or self._needs[group]
        what = f"{wanted} members of {group} bound"
        self.scenario.wait(what, lambda: len(self.bound(group)) >= wanted)
        if self.api.is_kubernetes and (self.scenario.program == NAME or not count):
            self.wait_initially_scheduled(group)

    def wait_initially_scheduled(self, group: str) -> None:
        """Returns when the group's own condition is True."""
        try:
            self.scenario.wait(f"{group} says so", lambda: self.condition(group).get("status") == "True")
        except NotReadyError as error:
            raise NotReadyError(f"{error}\nit says {self.condition(group)}") from error

    def wait_reported(self, group: str, text: str) -> None:
        """Returns when the group's condition is False with this text, or, where it has none, a member's."""
        if not self.api.is_kubernetes:
            first = self.members(group)[0]["metadata"]["name"]
            self.scenario.wait_rejected(first, "")
            return

        def reported() -> bool:
            found = self.condition(group)
            return found.get("status") == "False" and text in found.get("message", "")

        self.scenario.wait(f"{group} told {text!r}; {self.condition(group)}", reported)

    # The end

    def audit(self) -> None:
        """No gang is there in part when everything rests."""
        deadline = time.monotonic() + SECONDS
        while self.partial() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        assert not self.partial(), f"gangs in part: {self.partial()}"

    def partial(self) -> dict[str, int]:
        """Gangs with some members on nodes, but fewer than they need."""
        bound = {name: len(self.bound(name)) for name in self._needs}
        return {name: count for name, count in bound.items() if 0 < count < self._needs[name]}
