"""Random nodes and pods for decisions: few values, so that they meet, and every field that a default rule reads."""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.builders import Tree
from tests.specification.decisions.profiles import HOST, ZONE
from tests.specification.volumes.worlds import CLAIMS, Draws

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
IMAGE_SIZES = {"big:v1": 900 * 2**20, "app:latest": 400 * 2**20, "small:v2": 60 * 2**20, "huge:latest": 2**40}
NAMESPACES = ["default", "default", "shop", "ops"]
APPS = ["web", "db", "batch"]
NODES = [f"node-{number}" for number in range(20)]
_EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
_KEYS = [ZONE, ZONE, HOST, HOST, "rack"]


@dataclass(frozen=True)
class Land:
    """What nodes are like."""

    is_tight: bool = False
    """Small, so that pods fit nowhere and preempt."""
    is_even: bool = False
    """All alike but for their names and zones, so that points tie."""
    theme: str = ""
    """What most pods ask for: `spread`, `affinity`, `ports`, `images`, `storage`, or a bit of everything."""

    def share(self, theme: str, usual: float) -> float:
        """How many pods ask for something: nearly all where it is the theme, and few where something else is."""
        return usual if not self.theme else 0.85 if theme == self.theme else usual / 4


class Chance(Draws):
    """All that is drawn for one step of a history."""

    def __init__(self, seed: int, land: Land) -> None:
        super().__init__(Random(seed))
        self._land = land

    def of(self, options: Any) -> Any:
        """Any element, or key, of a collection that has some; those of sets and mappings in their order."""
        return self.one(*(sorted(options) if isinstance(options, set | dict) else options))

    def few_of(self, options: Collection[Any], most: int) -> list[Any]:
        """Up to so many, if there are."""
        return self.few(sorted(options), min(most, len(options)))

    # --- nodes --------------------------------------------------------------------------------------------------------

    def node_labels(self, name: str) -> dict[str, str]:
        labels = {ZONE: self.one("a", "b", "c"), HOST: name, "rack": self.one("a", "b")}
        labels |= {"disk": self.one("ssd", "hdd"), "gen": self.one("0", "3", "7")}
        if self._land.is_even:
            labels |= {"rack": "a", "disk": "ssd", "gen": "3"}
        for key in (ZONE, HOST, "rack"):
            if self.chance(0.04):
                del labels[key]
        return {**labels, **({ZONE: ""} if self.chance(0.01) else {})}

    def taints(self) -> list[Tree]:
        if self.chance(0.97 if self._land.is_even else 0.75):
            return []
        effects = [*_EFFECTS, *["PreferNoSchedule"] * 2]
        return [
            {"key": self.one("dedicated", "slow"), "value": self.one("", "x"), "effect": self.one(*effects)}
            for _ in range(self.one(1, 1, 2))
        ]

    def images(self) -> list[Tree]:
        names = self.few(sorted(IMAGE_SIZES), 3)
        return [{"names": [name], "sizeBytes": IMAGE_SIZES[name]} for name in names]

    def allocatable(self) -> dict[str, str]:
        if self._land.is_even and self.chance(0.95):
            return {"cpu": "8", "memory": "16Gi", "pods": "110"}
        more = {"example.com/gpu": self.one("1", "2", "4")} if self.chance(0.4) else {}
        more |= {"ephemeral-storage": "10Gi"} if self.chance(0.7) else {}
        if self._land.is_tight:
            return {
                "cpu": self.one("1", "2", "3"),
                "memory": self.one("2Gi", "4Gi"),
                "pods": self.one("2", "4", "9"),
                **more,
            }
        pods = self.one("3", *["20", "110"] * 4)
        return {"cpu": self.one("2", "4", "8", "16"), "memory": self.one("4Gi", "16Gi", "64Gi"), "pods": pods, **more}

    def annotations(self) -> dict[str, str]:
        rate = {} if self._land.is_even else {"rate": self.one("0", "5", "40")}
        return {**rate, **({"shuns": self.of(APPS)} if self.chance(0.15) else {})}

    def node_tree(self, name: str) -> Tree:
        return {
            "metadata": {"name": name, "labels": self.node_labels(name), "annotations": self.annotations()},
            "spec": {"unschedulable": self.chance(0.03), "taints": self.taints()},
            "status": {"allocatable": self.allocatable(), "images": self.images() if self.chance(0.5) else []},
        }

    # --- pods ---------------------------------------------------------------------------------------------------------

    def pod_labels(self) -> dict[str, str]:
        return {"app": self.of(APPS), **({"tier": self.one("a", "b")} if self.chance(0.3) else {})}

    def pod_selector(self) -> Tree | None:
        by_label = {"matchLabels": {"app": self.of(APPS)}}
        expression = self.one(
            {"key": "app", "operator": "In", "values": self.some(APPS, 1)},
            {"key": "app", "operator": "NotIn", "values": [self.of(APPS)]},
            {"key": "tier", "operator": self.one("Exists", "DoesNotExist")},
        )
        found: Tree | None = self.one(*[by_label] * 6, {"matchExpressions": [expression]}, {}, None)
        return found

    def requests(self) -> Tree:
        if self._land.is_even:
            return dict(self.one({}, {"cpu": "100m"}, {"cpu": "200m"}, {"cpu": "0", "memory": "0"}))
        return dict(
            self.one(
                {},
                {"cpu": "100m"},
                {"cpu": "250m", "memory": "256Mi"},
                {"cpu": "500m", "memory": "1Gi"},
                {"memory": "512Mi"},
                {"cpu": "400m", "example.com/gpu": "1"} if self.chance(0.6) else {"memory": "64Mi"},
                {"cpu": "100m", "ephemeral-storage": "1Gi"},
                {"cpu": "2", "memory": "3Gi"} if self.chance(0.3) else {"cpu": "200m"},
                {"cpu": "100m", "example.com/fpga": "1"} if self.chance(0.2) else {"cpu": "300m"},
            )
        )

    def container(self) -> Tree:
        made: Tree = {
            "name": "main",
            "image": self.one("app", "app", "big:v1", "small:v2", "huge", "unknown"),
            "resources": {"requests": self.requests()},
        }
        if self.chance(self._land.share("ports", 0.08)):
            port = {"hostPort": self.one(80, 81), "protocol": self.one("", "TCP", "UDP")}
            made["ports"] = [{**port, "hostIP": self.one("", "10.0.0.1", "10.0.0.2")}]
        return made

    def pod_spec(self) -> Tree:
        """A template's spec."""
        share = self._land.share
        spec: Tree = {"containers": [self.container()], "priority": self.one(0, 0, 5, 10)}
        if self.chance(0.1):
            spec["containers"].append({**self.container(), "name": "beside", "ports": []})
        if self.chance(0.1):
            spec["initContainers"] = [{**self.container(), "restartPolicy": self.one("Always", None), "name": "init"}]
        if self.chance(0.05):
            spec |= {"resources": {"requests": {"cpu": "600m", "memory": "300Mi"}}, "overhead": {"cpu": "50m"}}
        if self.chance(0.05):
            spec["preemptionPolicy"] = "Never"
        if self.chance(0.12):
            spec["nodeSelector"] = self.one({"disk": "ssd"}, {"rack": "a"}, {ZONE: "b"})
        if self.chance(0.35):
            spec["tolerations"] = [self.toleration() for _ in range(self.one(1, 1, 2))]
        if self.chance(share("affinity", 0.65)):
            spec["affinity"] = self.pod_affinity()
        if self.chance(share("spread", 0.4)):
            spec["topologySpreadConstraints"] = [self.constraint() for _ in range(self.one(1, 1, 2))]
        if self.chance(share("storage", 0.0) / 2):
            spec["volumes"] = [{"name": f"v{number}", **self.source()} for number in range(self.one(1, 1, 2))]
        return spec

    def twin(self, spec: Tree) -> Tree:
        """Nearly the same spec: one part is drawn again, or images are held in another way."""
        if self.chance(self._land.share("images", 0.1)):
            return _held_otherwise(spec)
        other = self.pod_spec()
        part = self.of({*spec, *other} - {"containers", "schedulerName"}) if self.chance(0.8) else "containers"
        kept = {name: its for name, its in spec.items() if name != part}
        return {**kept, part: other[part]} if part in other else kept

    def source(self) -> Tree:
        claimed = [{"persistentVolumeClaim": {"claimName": name}} for name in CLAIMS]
        return dict(self.one(*claimed, self.shared_disk(), self.shared_disk()))

    def toleration(self) -> Tree:
        return {
            "key": self.one("", "dedicated", "slow", "node.kubernetes.io/unschedulable"),
            "operator": self.one("Exists", "Exists", "Equal"),
            "value": self.one("", "x"),
            "effect": self.one("", *_EFFECTS),
        }

    def pod_affinity(self) -> Tree:
        found: Tree = {}
        if self.chance(0.4):
            found["nodeAffinity"] = self.node_affinity()
        for kind, usual in (("podAffinity", 0.15), ("podAntiAffinity", 0.25)):
            required = [self.term() for _ in range(self.one(1, 1, 1, 2))] if self.chance(usual) else []
            terms = [self.term() for _ in range(self.one(1, 1, 2))] if self.chance(0.35) else []
            preferred = [{"weight": self.one(1, 10, 100), "podAffinityTerm": term} for term in terms]
            if required or preferred:
                found[kind] = {REQUIRED: required, PREFERRED: preferred}
        return found

    def node_affinity(self) -> Tree:
        found: Tree = {}
        if self.chance(0.45):
            terms = [self.node_term() for _ in range(self.one(1, 1, 2))]
            found[REQUIRED] = {"nodeSelectorTerms": terms}
        if self.chance(0.6):
            found[PREFERRED] = [
                {"weight": self.one(1, 10, 50), "preference": {"matchExpressions": [self.requirement()]}}
                for _ in range(self.one(1, 2))
            ]
        return found

    def node_term(self) -> Tree:
        if self.chance(0.12):
            by_name = {
                "key": "metadata.name",
                "operator": self.one("In", "In", "NotIn"),
                "values": [self.of(NODES[:6])],
            }
            return {"matchFields": [by_name]}
        return {"matchExpressions": [self.requirement() for _ in range(self.one(1, 1, 2))]}

    def requirement(self) -> Tree:
        found: Tree = self.one(
            {"key": ZONE, "operator": "In", "values": self.some(["a", "b", "c"], 1)},
            {"key": ZONE, "operator": "NotIn", "values": [self.one("a", "b")]},
            {"key": "disk", "operator": "In", "values": ["ssd"]},
            {"key": "gen", "operator": self.one("Gt", "Lt"), "values": [self.one("1", "5")]},
            {"key": self.one("rack", ZONE), "operator": self.one("Exists", "Exists", "DoesNotExist")},
        )
        return found

    def term(self) -> Tree:
        term: Tree = {"topologyKey": self.one(*_KEYS), "labelSelector": self.pod_selector()}
        if self.chance(0.25):
            by_labels: list[Tree] = [{}, {"matchLabels": {"team": "a"}}, {"matchLabels": {"team": "b"}}]
            term["namespaceSelector"] = self.one(*by_labels)
        if self.chance(0.15):
            term["namespaces"] = self.some(["default", "shop", "ops"], 1)
        return term

    def constraint(self) -> Tree:
        action = self.one("DoNotSchedule", "ScheduleAnyway")
        found: Tree = {
            "maxSkew": self.one(1, 1, 2, 4),
            "topologyKey": self.one(*_KEYS),
            "whenUnsatisfiable": action,
            "labelSelector": self.pod_selector(),
            "nodeTaintsPolicy": self.one(None, "Honor", "Ignore"),
            "nodeAffinityPolicy": self.one(None, None, "Honor", "Ignore"),
        }
        if action == "DoNotSchedule" and self.chance(0.2):
            found["minDomains"] = self.one(2, 3, 4)
        if self.chance(0.1) and found["labelSelector"] is not None:
            found["matchLabelKeys"] = ["tier"]
        return found

    def owners(self) -> list[Tree]:
        kind = self.one("ReplicaSet", "StatefulSet", "ReplicationController")
        version = "v1" if kind == "ReplicationController" else "apps/v1"
        is_owned = self.chance(0.4)
        return [{"apiVersion": version, "kind": kind, "name": self.one("one", "two"), "uid": kind, "controller": True}][
            : int(is_owned)
        ]


def _held_otherwise(spec: Tree) -> Tree:
    """The same images by another number of containers: one of two is a volume instead, or one of one is doubled."""
    first, *more = spec["containers"]
    if more:
        return {**spec, "containers": [first], "volumes": [{"name": "image", "image": {"reference": more[0]["image"]}}]}
    held = [one["image"]["reference"] for one in spec.get("volumes", ()) if "image" in one]
    kept = {name: its for name, its in spec.items() if name != "volumes" or not held}
    return {
        **kept,
        "containers": [first, {**first, "name": "beside", "image": (held or [first["image"]])[0], "ports": []}],
    }
