"""Random problems of allocation, as the API server shows them: small, so that names, pools and amounts meet often.

A problem is a JSON object: `version`, `gates`, `nodes`, `slices`, `classes`, `claims`, `taken` (results of claims that
are allocated). Which kinds of things occur is drawn first, so that some problems have much of one kind.
"""

import random
from typing import Any, Final

from tests.devices.predicates import FAILS_WITHOUT_SIZE, OWN, PREDICATES

Json = dict[str, Any]

DRIVERS: Final = (OWN, "b.example.com")
NODES: Final = ("n0", "n1", "n2")
ATTRIBUTES: Final = (f"{OWN}/color", f"{OWN}/size", "b.example.com/color")
THEMES: Final = ("counters", "shares", "taints", "conditions", "own nodes", "lists", "groups", "admins", "choices")
ALWAYS: Final = (
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRAPartitionableDevices",
    "DRADeviceTaints",
    "DRADeviceBindingConditions",
    "DRAResourceClaimDeviceStatus",
    "DRAConsumableCapacity",
)


def problem(seed: object) -> Json:
    """The problem of this seed."""
    return _Problem(random.Random(repr(seed))).made()


class _Problem:
    def __init__(self, chance: random.Random) -> None:
        self._random = chance
        self._themes = {theme for theme in THEMES if self._is(0.3)}
        self._version = self._of(("1.36", "1.37", "1.37", "1.38", "1.38"))

    def made(self) -> Json:
        slices = self._slices()
        return {
            "version": self._version,
            "gates": self._gates(),
            "nodes": [{"metadata": {"name": name, "labels": {"zone": self._of(("z0", "z1"))}}} for name in NODES],
            "slices": slices,
            "classes": [self._class(number) for number in range(3)],
            "claims": [self._claim(number) for number in range(self._of((1, 1, 1, 2, 3)))],
            "taken": self._taken(slices),
        }

    def _gates(self) -> list[str]:
        gates = [gate for gate in ALWAYS if not self._is(0.03)]
        if self._version != "1.36" and self._is(0.9):
            gates.append("DRAFractionalCapacityRange")
        if "lists" in self._themes and self._is(0.8):
            gates.append("DRAListTypeAttributes")
        if "groups" in self._themes and self._version != "1.36" and self._is(0.8):
            gates.append("DRADeviceCompatibilityGroups")
        return gates

    # --- slices -------------------------------------------------------------------------------------------------------

    def _slices(self) -> list[Json]:
        made: list[Json] = []
        for driver in DRIVERS:
            for pool in ("p", "q")[: self._of((0, 1, 1, 2, 2))]:
                made += self._pool(driver, pool)
        self._random.shuffle(made)
        names = self._random.sample(range(100), len(made))
        for piece, number in zip(made, names, strict=True):
            piece["metadata"] = {"name": f"s{number:02}"}
        return made

    def _pool(self, driver: str, pool: str) -> list[Json]:
        counters = "counters" in self._themes and self._is(0.8)
        home = self._nodes() if self._is(0.3) else None
        self._sets = ["c0", "c1"][: self._count(1, 2)] if counters else []
        self._numbers = self._random.sample(range(40), 15)
        pieces = [self._slice(driver, pool, home) for _ in range(self._count(1, 3))]
        for name in [*self._sets, "c1"] if self._is(0.03) else self._sets:
            if self._is(0.97):
                counter_set = self._counter_set(name)
                pieces.append({"driver": driver, "sharedCounters": [counter_set], **(home or self._nodes())})
        generation, count = self._count(1, 2), len(pieces)
        slices = []
        for piece in pieces:
            ages = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 1)
            known = {
                "name": pool,
                "generation": generation + self._of(ages) if self._is(0.15) else generation,
                "resourceSliceCount": count + self._of((-1, 1)) if self._is(0.01) else count,
            }
            if self._is(0.05):
                piece["skipNodeOperations"] = ["*"]
            if not self._is(0.01):
                slices.append({"spec": {**piece, "pool": known}})
        return slices

    def _slice(self, driver: str, pool: str, home: Json | None) -> Json:
        names = [self._numbers.pop() if self._is(0.997) else 0 for _ in range(self._count(1, 5))]
        devices = [{"name": f"{pool}{name:02}", **self._device(driver)} for name in names]
        if "own nodes" in self._themes and self._is(0.6):
            devices = [device | self._nodes() for device in devices]
            return {"driver": driver, "perDeviceNodeSelection": True, "devices": devices}
        return {"driver": driver, "devices": devices, **(home or self._nodes())}

    def _nodes(self) -> Json:
        kind = self._random.random()
        if kind < 0.4:
            return {"nodeName": self._of(NODES)}
        if kind < 0.7:
            return {"allNodes": True}
        requirements: list[Json] = [{"key": "zone", "operator": "In", "values": self._of((["z0"], ["z0", "z1"]))}]
        if self._is(0.3):
            requirements.append({"key": "zone", "operator": self._of(("Exists", "DoesNotExist", "Exists"))})
        if self._is(0.2):
            requirements.append({"key": "zone", "operator": "NotIn", "values": ["z1"]})
        terms: list[Json] = [{"matchExpressions": requirements}]
        if self._is(0.05):
            terms.append({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]})
        return {"nodeSelector": {"nodeSelectorTerms": terms}}

    def _counter_set(self, name: str) -> Json:
        amounts = {"x": {"value": str(self._count(1, 6))}, "y": {"value": self._of(("1Gi", "2Gi", "4G"))}}
        return {"name": name, "counters": amounts}

    # --- devices ------------------------------------------------------------------------------------------------------

    def _device(self, driver: str) -> Json:
        device: Json = {"attributes": self._attributes(driver)}
        if self._is(0.8 if "shares" in self._themes else 0.1):
            names = ("memory", "speed")[: self._count(1, 2)]
            device["capacity"] = {self._spelled(name, driver): self._capacity() for name in names}
            if self._is(0.02):
                device["capacity"][f"{driver}/memory"] = self._capacity()
        if "shares" in self._themes and self._is(0.6):
            device["allowMultipleAllocations"] = self._is(0.9)
        if self._sets and self._is(0.7):
            sets = self._random.sample(self._sets, self._count(1, len(self._sets)))
            device["consumesCounters"] = [self._use(name) for name in sets]
        if "taints" in self._themes and self._is(0.4):
            device["taints"] = [self._taint() for _ in range(self._count(1, 2))]
        if "conditions" in self._themes and self._is(0.3):
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed", "lost"]}
            device["bindsToNode"] = self._is(0.5)
        return device

    def _attributes(self, driver: str) -> Json:
        attributes: Json = {}
        if self._is(0.85):
            name = "color" if self._is(0.4) else f"{self._of((driver, OWN))}/color"
            attributes[name] = self._value()
        if self._is(0.8):
            name = "size" if self._is(0.4) else f"{OWN}/size"
            attributes[name] = {"int": self._count(0, 3)}
        return attributes

    def _value(self) -> Json:
        scalars: tuple[Json, ...] = ({"string": "red"}, {"string": "blue"}, {"int": 7}, {"version": "1.0.0"})
        if self._is(0.1):
            return dict(self._of(({"version": "1.0.0+a"}, {"version": "1.0.0+b"}, {"version": "1.0"})))
        if "lists" not in self._themes or self._is(0.3):
            return dict(self._of((*scalars, {"bool": True})))
        colors = self._random.sample(("red", "blue", "green"), self._count(1, 3))
        versions = ["1.0.0", "2.0.0+a"][: self._count(1, 2)] if self._is(0.8) else colors
        return dict(self._of(({"strings": colors}, {"strings": colors}, {"ints": [7, 8]}, {"versions": versions})))

    def _spelled(self, name: str, driver: str) -> str:
        """With the driver's domain at times: since 1.38 that is the same capacity."""
        return f"{driver}/{name}" if self._version == "1.38" and self._is(0.3) else name

    def _capacity(self) -> Json:
        capacity: Json = {"value": self._of(("8", "10", "16Gi", "2", "2500m"))}
        between: tuple[Json, ...] = (
            {"min": "2", "step": "2"},
            {"min": "1", "step": "3", "max": "7"},
            {"min": "2", "max": "8"},
            {"max": "8"},
            {"min": "500m", "step": "250m"},
            {"min": "500m", "step": "250m", "max": "2"},
            {"min": "1Gi", "step": "1Gi"},
            {"min": "1k", "step": "500"},
            {"min": "1", "step": "500u"},
        )
        kind = self._random.random()
        if kind < 0.4:
            policy: Json = {"validRange": self._of(between)}
            policy["default"] = policy["validRange"].get("min", "1")
        elif kind < 0.6:
            policy = {"default": "2", "validValues": ["2", "4", "8"]}
        elif kind < 0.7:
            policy = {"default": self._of(("1", "3"))}
        else:
            return capacity
        return capacity | {"requestPolicy": policy}

    def _use(self, counter_set: str) -> Json:
        counters = {"x": {"value": self._of(("0", "1", "1", "2", "3", "500m"))}}
        if self._is(0.3):
            counters["y"] = {"value": self._of(("1Gi", "512Mi", "1G"))}
        if self._is(0.005):
            counters["z"] = {"value": "1"}
        use: Json = {"counterSet": counter_set, "counters": counters}
        if "groups" in self._themes and self._is(0.7):
            use["compatibilityGroups"] = self._random.sample(("whole", "half", "third"), self._count(1, 2))
        return use

    def _taint(self) -> Json:
        effects = ("NoSchedule", "NoSchedule", "NoExecute", "None", "Unknown")
        return {"key": self._of(("k", "l")), "value": self._of(("v", "w")), "effect": self._of(effects)}

    def _taken(self, slices: list[Json]) -> list[Json]:
        taken: list[Json] = []
        for piece in slices:
            for device in piece["spec"].get("devices", ()):
                if not self._is(0.15):
                    continue
                spec = piece["spec"]
                result = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
                if self._is(0.9 if device.get("allowMultipleAllocations") else 0.05):
                    result["shareID"] = f"share {len(taken)}"
                    if self._is(0.8):
                        amount = self._of(("1", "2", "4", "1500m"))
                        result["consumedCapacity"] = {self._spelled("memory", spec["driver"]): amount}
                    if self._is(0.05):
                        result["consumedCapacity"] = {"memory": "1", f"{spec['driver']}/memory": "2"}
                if self._is(0.05):
                    result["adminAccess"] = True
                taken.append(result)
                if "shareID" in result and self._is(0.3):
                    taken.append(result | {"shareID": "another"})
        return taken

    # --- claims -------------------------------------------------------------------------------------------------------

    def _class(self, number: int) -> Json:
        spec: Json = {"selectors": []}
        if number == 1:
            spec["selectors"] = [{"cel": {"expression": next(iter(PREDICATES))}}]
        if number:
            configs = range(self._count(1, 2))
            spec["config"] = [
                {"opaque": {"driver": OWN, "parameters": {"class": number, "part": part}}} for part in configs
            ]
        return {"metadata": {"name": f"class{number}"}, "spec": spec}

    def _claim(self, number: int) -> Json:
        requests = [self._request(f"r{place}") for place in range(self._of((1, 1, 1, 2, 3)))]
        devices: Json = {"requests": requests}
        names = [
            name
            for request in requests
            for name in (
                request["name"],
                *(f"{request['name']}/{sub['name']}" for sub in request.get("firstAvailable", ())),
            )
        ]
        if self._is(0.3):
            devices["constraints"] = [self._constraint(names) for _ in range(self._count(1, 2))]
        if self._is(0.4):
            devices["config"] = [self._config(names, place) for place in range(self._count(1, 2))]
        return {"metadata": {"name": f"claim{number}", "namespace": "ns"}, "spec": {"devices": devices}}

    def _config(self, names: list[str], place: int) -> Json:
        config: Json = {"opaque": {"driver": DRIVERS[1], "parameters": {"part": place}}}
        listed = self._random.sample(names, self._count(0, min(3, len(names))))
        return config | {"requests": listed} if listed else config

    def _constraint(self, names: list[str]) -> Json:
        if self._is(0.01):
            return {}
        constraint: Json = {self._of(("matchAttribute", "distinctAttribute")): self._of(ATTRIBUTES)}
        if self._is(0.4):
            constraint["requests"] = self._random.sample(names, self._count(1, len(names)))
        return constraint

    def _request(self, name: str) -> Json:
        if self._is(0.5 if "choices" in self._themes else 0.1):
            subs = [{"name": f"s{at}", **self._exactly()} for at in range(self._count(1, 3))]
            return {"name": name, "firstAvailable": subs}
        exactly = self._exactly()
        if self._is(0.4 if "admins" in self._themes else 0.01):
            exactly["adminAccess"] = self._is(0.8)
        return {"name": name, "exactly": exactly}

    def _exactly(self) -> Json:
        spec: Json = {"deviceClassName": "none" if self._is(0.003) else f"class{self._count(0, 2)}"}
        if self._is(0.3):
            expressions = self._random.sample(list(PREDICATES), self._count(1, 2))
            spec["selectors"] = [{"cel": {"expression": each}} for each in expressions]
        if self._is(0.005):
            spec["selectors"] = [{"cel": {"expression": FAILS_WITHOUT_SIZE}}]
        spec["allocationMode"] = "All" if self._is(0.08) else "ExactCount"
        if spec["allocationMode"] == "ExactCount":
            spec["count"] = self._of((1, 1, 1, 1, 2, 2, 3)) if self._is(0.98) else self._of((12, 20, 32, 33))
        if self._is(0.5 if "taints" in self._themes else 0.05):
            tolerations = ({"operator": "Exists"}, {"key": "k", "operator": "Equal", "value": "v"}, {"key": "k"})
            spec["tolerations"] = [dict(self._of(tolerations)) for _ in range(self._count(1, 2))]
            if self._is(0.4):
                spec["tolerations"][0]["effect"] = self._of(("NoSchedule", "NoExecute"))
        if self._is(0.5 if "shares" in self._themes else 0.02):
            names = ("memory", "speed")[: self._of((1, 1, 1, 1, 2))]
            spec["capacity"] = {"requests": {self._spelled(name, OWN): self._amount() for name in names}}
            if self._is(0.02):
                spec["capacity"]["requests"][f"{OWN}/memory"] = self._amount()
        return spec

    def _amount(self) -> str:
        if self._is(0.02):
            return str(self._of(("-1", "100u", "1500500u")))
        return str(self._of(("0", "1", "1", "1", "2", "2", "3", "5", "9", "1Gi", "1500Mi", "750m", "700m", "1200")))

    # --- chance -------------------------------------------------------------------------------------------------------

    def _is(self, probability: float) -> bool:
        return self._random.random() < probability

    def _count(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def _of(self, things: Any) -> Any:
        return self._random.choice(things)
