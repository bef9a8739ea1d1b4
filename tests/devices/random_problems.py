"""Random allocation problems: nodes, slices, classes, claims and what is taken, as the API server would show them.

A problem is a JSON object: `id`, `nodes`, `slices`, `classes`, `claims`, `taken` (results of other claims'
allocations). Everything is small, so that names, pools, counters and capacities meet often.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

Object = dict[str, Any]

DRIVERS: Final = ("a.example.com", "b.example.com")
POOLS: Final = ("p", "q")
NODES: Final = ("n0", "n1", "n2")
ZONES: Final = ("z0", "z1")
ATTRIBUTE: Final = "a.example.com/color"
EXPRESSIONS: Final = (
    'device.driver == "a.example.com"',
    'device.attributes["a.example.com"].?color.orValue("") == "red"',
    'device.attributes["a.example.com"].?size.orValue(0) > 1',
    "true",
    "device.allowMultipleAllocations == true",
)
WRONG: Final = 'device.attributes["a.example.com"].size > 0'
"""An error for devices without that attribute."""


class Problems:
    """A stream of problems from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seed = seed

    def __iter__(self) -> Iterator[Object]:
        number = 0
        while True:
            yield self.problem(f"{self._seed}-{number}")
            number += 1

    def problem(self, name: str) -> Object:
        """The next one."""
        self._features = {key for key in ("counters", "shares", "taints", "bind", "per-device") if self._chance(0.4)}
        slices = self._slices()
        return {
            "id": name,
            "nodes": [{"metadata": {"name": node, "labels": {"zone": self._of(ZONES)}}} for node in NODES],
            "slices": slices,
            "classes": [self._class(number) for number in range(3)],
            "claims": [self._claim(number) for number in range(self._of((1, 1, 2, 3)))],
            "taken": self._taken(slices),
        }

    # --- slices -------------------------------------------------------------------------------------------------------

    def _slices(self) -> list[Object]:
        made: list[Object] = []
        for driver in DRIVERS:
            for pool in POOLS[: self._count(0, 2)]:
                generation = self._count(1, 2)
                pieces = [self._slice(driver, pool) for _ in range(self._count(1, 3))]
                if "counters" in self._features and self._chance(0.8):
                    pieces.append(self._counter_slice(driver, pool))
                wrong_count = self._chance(0.03)
                for piece in pieces:
                    old = self._chance(0.03)
                    piece["spec"]["pool"] = {
                        "name": pool,
                        "generation": generation - old,
                        "resourceSliceCount": len(pieces) + wrong_count,
                    }
                    piece["metadata"] = {"name": f"s{self._count(100, 999)}-{len(made)}"}
                    made.append(piece)
        self._random.shuffle(made)
        return made

    def _slice(self, driver: str, pool: str) -> Object:
        spec: Object = {"driver": driver, "devices": [self._device(driver) for _ in range(self._count(1, 4))]}
        names = self._random.sample(range(100), len(spec["devices"]))
        for device, number in zip(spec["devices"], names, strict=True):
            device["name"] = f"{pool}d{number}" if self._chance(0.99) else "twin"
        if "per-device" in self._features and self._chance(0.5):
            spec["perDeviceNodeSelection"] = True
            for device in spec["devices"]:
                device.update(self._choice_of_nodes())
        else:
            spec |= self._choice_of_nodes()
        return {"spec": spec}

    def _counter_slice(self, driver: str, pool: str) -> Object:
        sets = [
            {
                "name": name,
                "counters": {"x": {"value": str(self._count(1, 6))}, "y": {"value": f"{self._count(1, 4)}Gi"}},
            }
            for name in ("c0", "c1")[: self._count(1, 2)]
        ]
        del pool
        return {"spec": {"driver": driver, "sharedCounters": sets, **self._choice_of_nodes()}}

    def _choice_of_nodes(self) -> Object:
        kind = self._random.random()
        if kind < 0.5:
            return {"nodeName": self._of(NODES)}
        if kind < 0.75:
            return {"allNodes": True}
        values = list(ZONES[: self._count(1, 2)])
        requirements = [{"key": "zone", "operator": "In", "values": values}]
        if self._chance(0.2):
            requirements.append({"key": "zone", "operator": "Exists"})
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": requirements}]}}

    def _device(self, driver: str) -> Object:
        attributes: Object = {}
        if self._chance(0.8):
            own = driver == DRIVERS[0] and self._chance(0.7)
            attributes["color" if own else ATTRIBUTE] = self._of(({"string": "red"}, {"string": "blue"}, {"int": 7}))
        if self._chance(0.7):
            attributes["a.example.com/size"] = {"int": self._count(0, 3)}
        device: Object = {"attributes": attributes}
        if "shares" in self._features:
            device |= self._shareable()
        if "counters" in self._features and self._chance(0.6):
            device["consumesCounters"] = [self._use() for _ in range(1)]
        if "taints" in self._features and self._chance(0.3):
            effect = self._of(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": self._of(("k", "l")), "value": self._of(("", "v")), "effect": effect}]
        if "bind" in self._features and self._chance(0.3):
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
            device["bindsToNode"] = self._chance(0.5)
        return device

    def _use(self) -> Object:
        name = "c1" if self._chance(0.03) else "c0"
        counters = {"x": {"value": str(self._count(0, 3))}}
        if self._chance(0.3):
            counters["y"] = {"value": f"{self._count(1, 2)}Gi"}
        return {"counterSet": name, "counters": counters}

    def _shareable(self) -> Object:
        capacity: Object = {"value": self._of(("8", "10", "16Gi", "2"))}
        policy = self._random.random()
        if policy < 0.3:
            capacity["requestPolicy"] = {"default": "2", "validRange": {"min": "2", "step": self._of(("2", "3"))}}
            if self._chance(0.5):
                capacity["requestPolicy"]["validRange"]["max"] = "8"
        elif policy < 0.45:
            capacity["requestPolicy"] = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
        elif policy < 0.6:
            capacity["requestPolicy"] = {"default": "2", "validValues": ["2", "4", "8"]}
        elif policy < 0.7:
            capacity["requestPolicy"] = {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}
        return {"capacity": {"memory": capacity}, "allowMultipleAllocations": self._chance(0.6)}

    def _taken(self, slices: list[Object]) -> list[Object]:
        taken = []
        for piece in slices:
            for device in piece["spec"].get("devices", ()):
                if not self._chance(0.15):
                    continue
                result = {
                    "driver": piece["spec"]["driver"],
                    "pool": piece["spec"]["pool"]["name"],
                    "device": device["name"],
                }
                if device.get("allowMultipleAllocations"):
                    result["shareID"] = f"{self._random.getrandbits(32):08x}-0000-4000-8000-000000000000"
                    if self._chance(0.8):
                        result["consumedCapacity"] = {"memory": str(self._count(1, 4))}
                taken.append(result)
        return taken

    # --- claims -------------------------------------------------------------------------------------------------------

    def _class(self, number: int) -> Object:
        selectors = [{"cel": {"expression": EXPRESSIONS[0]}}] if number == 1 else []
        spec: Object = {"selectors": selectors}
        if number:
            spec["config"] = [{"opaque": {"driver": DRIVERS[0], "parameters": {"class": number}}}]
        return {"metadata": {"name": f"class{number}"}, "spec": spec}

    def _claim(self, number: int) -> Object:
        requests = [self._request(f"r{place}") for place in range(self._of((1, 1, 2, 3)))]
        devices: Object = {"requests": requests}
        names = [name for request in requests for name in _names_of(request)]
        if self._chance(0.4):
            devices["constraints"] = [self._constraint(names) for _ in range(self._count(1, 2))]
        if self._chance(0.4):
            some = self._random.sample(names, self._count(0, min(2, len(names))))
            opaque = {"driver": DRIVERS[1], "parameters": {"claim": number}}
            devices["config"] = [{"requests": some, "opaque": opaque}]
        return {
            "metadata": {"name": f"claim{number}", "namespace": "ns", "uid": f"u{number}"},
            "spec": {"devices": devices},
        }

    def _constraint(self, names: list[str]) -> Object:
        kind = "matchAttribute" if self._chance(0.6) or "shares" not in self._features else "distinctAttribute"
        requests = self._random.sample(names, self._count(1, len(names))) if self._chance(0.4) else []
        return {kind: self._of((ATTRIBUTE, "a.example.com/size")), "requests": requests}

    def _request(self, name: str) -> Object:
        if self._chance(0.25):
            subs = [{"name": f"s{at}", **self._exactly(is_sub=True)} for at in range(self._count(1, 3))]
            return {"name": name, "firstAvailable": subs}
        return {"name": name, "exactly": self._exactly(is_sub=False)}

    def _exactly(self, *, is_sub: bool) -> Object:
        spec: Object = {"deviceClassName": f"class{self._count(0, 2)}" if self._chance(0.995) else "none"}
        if self._chance(0.3):
            spec["selectors"] = [{"cel": {"expression": self._of(EXPRESSIONS)}} for _ in range(self._count(1, 2))]
        if self._chance(0.01):
            spec["selectors"] = [{"cel": {"expression": WRONG}}]
        is_all = self._chance(0.1)
        spec["allocationMode"] = "All" if is_all else "ExactCount"
        if not is_all:
            spec["count"] = self._of(
                (1, 1, 1, 1, 2, 2, 3, 33 if self._chance(0.03) else 1, 20 if self._chance(0.1) else 1)
            )
        if not is_sub and self._chance(0.1):
            spec["adminAccess"] = self._chance(0.8)
        if "taints" in self._features and self._chance(0.5):
            toleration = self._of(({"operator": "Exists"}, {"key": "k", "operator": "Equal", "value": "v"}))
            spec["tolerations"] = [dict(toleration)]
            if self._chance(0.4):
                spec["tolerations"][0]["effect"] = "NoSchedule"
        if "shares" in self._features and self._chance(0.5):
            amount = self._of(("1", "2", "3", "5", "9", "1Gi", "750m", "700m"))
            spec["capacity"] = {"requests": {"memory" if self._chance(0.93) else "speed": amount}}
        return spec

    # --- chance -------------------------------------------------------------------------------------------------------

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _count(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def _of(self, things: Any) -> Any:
        return self._random.choice(things)


def _names_of(request: Object) -> list[str]:
    subs = request.get("firstAvailable", ())
    return [request["name"], *(f"{request['name']}/{sub['name']}" for sub in subs)]
