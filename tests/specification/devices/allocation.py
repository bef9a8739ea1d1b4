"""The allocation of devices as plainly as it can be said: the executable specification, over objects as JSON.

The search tries one device after the other, in the order of pools, and looks at everything that was chosen before each
time again. It is slow, and it is recursive.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.specification.devices import amounts, rules
from tests.specification.devices.reach import NameSearchResult, Reached, chooses, pools
from tests.specification.devices.rules import Choice, Reported, Wish

Json = dict[str, Any]
MOST = 32
FOUND, NOT_FOUND, TOO_MANY = "found", "not found", "too many"

# Expression, driver, device; raises `ExpressionError`.
Evaluate = Callable[[str, str, Json], bool]


class ExpressionError(Exception):
    """The text after `CEL runtime error: `."""


class WrongError(Exception):
    """The pod is in error."""


class WrongHereError(Exception):
    """The node's pools are invalid."""


class TooLongError(Exception):
    """The search needs more steps than a test should take."""


@dataclass(frozen=True)
class Way:
    """One way to satisfy a request: how many devices, or which."""

    wish: Wish
    count: int
    devices: tuple[NameSearchResult, ...] | None = None


class Specification:
    """One problem on one node."""

    def __init__(
        self,
        problem: Json,
        node: Json,
        version: str,
        gates: frozenset[str],
        evaluate: Evaluate,
        steps: int,
        memory: dict[Any, Reached],
    ) -> None:
        """`memory`: the pools whose counters were looked at first, on this node or on one before: they are kept."""
        self.problem = problem
        self.node = node
        self.version = version
        self.gates = gates
        self.evaluate = evaluate
        self.steps = steps
        self.memory = memory
        self.fractions = "DRAFractionalCapacityRange" in gates
        self.lists = "DRAListTypeAttributes" in gates
        self.shares = "DRAConsumableCapacity" in gates
        self.taken = rules.taken_by(problem["taken"], version)
        self.classes = {each["metadata"]["name"]: each for each in problem["classes"]}
        self.claims: list[Json] = problem["claims"]
        self.pools = pools(problem["slices"], node, version, gates)
        self.devices = [found for pool in self.pools if not pool.state for found in pool.here]
        self.chosen: list[Choice] = []
        self.log: list[Reported] = []

    def allocate(self) -> list[Json] | None:
        self.ways = [self.ways_of(number) for number in range(len(self.claims))]
        outcome = self.request(0, 0)
        if outcome == TOO_MANY:
            raise WrongError("allocation max size exceeded")
        if outcome == FOUND:
            return [self.result(number) for number in range(len(self.claims))]
        if any(pool.state == "invalid" for pool in self.pools):
            raise WrongHereError("invalid resource pools were encountered")
        return None

    # --- what is asked for --------------------------------------------------------------------------------------------

    def ways_of(self, number: int) -> list[list[Way]]:
        claim = self.claims[number]
        name = key(claim)
        made: list[list[Way]] = []
        least = 0
        for request in claim["spec"]["devices"]["requests"]:
            subs = request.get("firstAvailable")
            requested_changes = [Wish(sub["name"], request["name"], sub) for sub in subs or ()]
            requested_changes = requested_changes or [Wish(request["name"], "", request["exactly"])]
            where = f"claim {name}, request {request['name']}"
            if subs and "DRAPrioritizedList" not in self.gates:
                raise WrongError(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
            for wish in requested_changes:
                if not self.shares and wish.spec.get("capacity") is not None:
                    kind = "subrequest" if subs else "request"
                    raise WrongError(
                        f"claim {name}, {kind} {wish.name}: "
                        "has capacity requests, but the DRAConsumableCapacity feature is disabled"
                    )
            made.append([self.way(name, wish) for wish in requested_changes])
            needed = min(way.count for way in made[-1])
            if self.version != "1.36" and needed > MOST - least:
                text = f"adding {needed} devices exceeds the claim limit of 32, with {least} already accounted for"
                raise WrongError(f"{where}: {text}")
            least += needed
        if least > MOST:
            raise WrongError(f"claim {name}: number of requested devices {least} exceeds the claim limit of 32")
        for place, constraint in enumerate(claim["spec"]["devices"].get("constraints", ())):
            if not constraint.get("matchAttribute") and not constraint.get("distinctAttribute"):
                raise WrongError(f"claim {name}, constraint #{place}: empty constraint (unsupported constraint type?)")
        return made

    def way(self, claim: str, wish: Wish) -> Way:
        where = f"claim {claim}, request {wish.name}"
        if wish.spec.get("adminAccess") is not None and "DRAAdminAccess" not in self.gates:
            raise WrongError(f"{where}: admin access is requested, but the feature is disabled")
        name = wish.spec["deviceClassName"]
        if name not in self.classes:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            raise WrongError(f"{where}: could not retrieve device class {name}: {missing}")
        if not wish.is_all:
            return Way(wish, wish.spec["count"])
        devices = []
        for pool in self.pools:
            if pool.state:
                text = f"asks for all devices, but resource pool {'/'.join(pool.name)} is currently {pool.state}"
                raise (WrongHereError if self.version == "1.38" else WrongError)(f"{where}: {text}")
            for found in pool.here:
                if not self.is_selected(claim, wish, found):
                    continue
                used = self.taken.used.get(found.id, {}) if self.version == "1.36" else {}
                at = f"{where}: checking capacity for device {found.device['name']}"
                if not self.shares or self.is_large_enough(wish, found, used, at):
                    devices.append(found)
        return Way(wish, len(devices), tuple(devices))

    def is_selected(self, claim: str, wish: Wish, found: NameSearchResult) -> bool:
        with_conditions = {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= self.gates
        if found.device.get("bindingConditions") and not with_conditions:
            return False
        device_class = self.classes[wish.spec["deviceClassName"]]
        selectors = [(f"class {device_class['metadata']['name']}", device_class["spec"].get("selectors", ()))]
        selectors.append((f"claim {claim}", wish.spec.get("selectors", ())))
        for where, parts in selectors:
            for place, selector in enumerate(parts):
                try:
                    if not self.evaluate(selector["cel"]["expression"], found.id[0], found.device):
                        return False
                except ExpressionError as problem:
                    device = f" on device {'/'.join(found.id)}" if self.version != "1.36" else ""
                    text = f"{where}: selector #{place}{device}: CEL runtime error: {problem}"
                    raise WrongError(text) from None
        return not found.slice["spec"].get("perDeviceNodeSelection") or chooses(found.device, self.node)

    def is_large_enough(self, wish: Wish, found: NameSearchResult, used: dict[str, Any], where: str) -> bool:
        capacities = self.capacities(found)
        try:
            takes = self.takes(wish, found)
        except amounts.BadAmountError as problem:
            raise WrongError(f"{where}: {problem}") from None
        return takes is not None and amounts.fits(takes, capacities, used, fractions=self.fractions)

    def capacities(self, found: NameSearchResult) -> Json:
        published: Json = found.device.get("capacity", {})
        return amounts.full(published, found.id[0]) if self.version == "1.38" else published

    def takes(self, wish: Wish, found: NameSearchResult) -> dict[str, str] | None:
        queried = wish.spec.get("capacity")
        capacities = self.capacities(found)
        if self.version == "1.38":
            wanted = (queried or {}).get("requests") or {}
            if set(amounts.full(wanted, found.id[0])) - set(capacities):
                return None
            queried = amounts.asked(queried, found.id[0])
        return amounts.takes(queried, capacities, self.version, fractions=self.fractions)

    # --- the search ---------------------------------------------------------------------------------------------------

    def request(self, claim: int, place: int) -> str:
        if claim == len(self.claims):
            return FOUND
        if place == len(self.ways[claim]):
            outcome = self.request(claim + 1, 0)
            return NOT_FOUND if outcome == TOO_MANY else outcome
        outcomes = []
        for way in self.ways[claim][place]:
            outcomes.append(self.device(claim, place, way, 0, 0))
            if outcomes[-1] == FOUND:
                return FOUND
        return TOO_MANY if set(outcomes) == {TOO_MANY} else NOT_FOUND

    def device(self, claim: int, place: int, way: Way, number: int, start: int) -> str:
        self.steps -= 1
        if self.steps < 0:
            raise TooLongError
        if way.devices == ():
            return NOT_FOUND
        if number == way.count:
            return self.request(claim, place + 1)
        if way.count - number + sum(each.claim == claim for each in self.chosen) > MOST:
            return TOO_MANY
        candidates = [way.devices[number]] if way.devices else self.devices[start:]
        for at, found in enumerate(candidates, start + 1):
            choice = self.choice(claim, way, found)
            if choice is None:
                continue
            self.chosen.append(choice)
            outcome = self.device(claim, place, way, number + 1, at)
            if outcome == FOUND:
                return FOUND
            self.chosen.pop()
            self.take_back(claim, way.wish, choice.found, len(self.constraints(claim)))
            if outcome == TOO_MANY:
                return TOO_MANY
        return NOT_FOUND

    def choice(self, claim: int, way: Way, found: NameSearchResult) -> Choice | None:
        """The device for the claim, unless something is against it."""
        wish, name = way.wish, key(self.claims[claim])
        where = f"claim {name}, request {wish.name}"
        is_shared = self.shares and bool(found.device.get("allowMultipleAllocations"))
        if not rules.is_free(found, claim, wish, self.chosen, self.taken):
            return None
        if way.devices is None:
            if not self.is_selected(name, wish, found):
                return None
            at = f"{where}: checking capacity for device {'/'.join(found.id)}"
            if self.shares and not self.is_large_enough(wish, found, self.used(found), at):
                return None
        is_exclusive = self.version == "1.38" and not is_shared and not wish.is_admin
        if is_exclusive and rules.has_shares(found, self.chosen, self.taken):
            return None
        is_charged = bool(found.device.get("consumesCounters"))
        if self.skips_operations(found) or (is_charged and "DRAPartitionableDevices" not in self.gates):
            return None
        if is_charged:
            is_charged = rules.is_charged(found, self.chosen, self.taken, self.version, is_shared=is_shared)
        if is_charged and not self.has_counters(found):
            return None
        if "DRADeviceTaints" in self.gates and not rules.is_tolerated(found, wish):
            return None
        if not self.keeps_constraints(claim, way, found, where):
            return None
        at = f"{where}: rechecking capacity for device {'/'.join(found.id)}"
        if self.shares and not self.is_large_enough(wish, found, self.used(found), at):
            self.take_back(claim, wish, found, len(self.constraints(claim)))
            return None
        takes = self.takes(wish, found) if is_shared else None
        return Choice(claim, wish, found, is_shared, takes or {}, is_charged)

    def skips_operations(self, found: NameSearchResult) -> bool:
        """The experimental allocator, which is used when a gate of its own is on, refuses what others do not see."""
        is_experimental = self.lists or "DRADeviceCompatibilityGroups" in self.gates
        return is_experimental and self.version != "1.36" and bool(found.slice["spec"].get("skipNodeOperations"))

    def used(self, found: NameSearchResult) -> dict[str, Any]:
        used = dict(self.taken.used.get(found.id, {}))
        for each in self.chosen:
            if each.found.id == found.id and each.is_shared:
                for name, amount in each.takes.items():
                    used[name] = used.get(name, 0) + amounts.number(amount)
        return used

    def has_counters(self, found: NameSearchResult) -> bool:
        pool = next(pool for pool in self.pools if pool.name == found.id[:2])
        if "DRADeviceCompatibilityGroups" in self.gates:
            company = self.memory.setdefault(("groups", pool.name), pool)
            if not rules.is_compatible(company, found, self.chosen, self.taken):
                return False
        first = self.memory.setdefault(("counters", pool.name if self.version != "1.36" else pool.name[1]), pool)
        return rules.has_counters(first, found, self.chosen, self.taken, self.version)

    # --- constraints --------------------------------------------------------------------------------------------------

    def constraints(self, claim: int) -> list[Json]:
        constraints: list[Json] = self.claims[claim]["spec"]["devices"].get("constraints", [])
        return constraints

    def keeps_constraints(self, claim: int, way: Way, found: NameSearchResult, where: str) -> bool:
        for place, constraint in enumerate(self.constraints(claim)):
            if not rules.concerns(constraint, way.wish):
                continue
            reported = [each for each in self.log if (each.claim, each.constraint) == (claim, place)]
            attribute = constraint.get("matchAttribute") or constraint["distinctAttribute"]
            values = rules.values_of(found, attribute, self.version, lists=self.lists)
            if values == frozenset() and self.version == "1.38":
                raise WrongError(f"{where}: device {'/'.join(found.id)}: unsupported attribute value for {attribute}")
            if values is None or not rules.may_add(constraint, values, reported, self.version, lists=self.lists):
                self.take_back(claim, way.wish, found, place)
                if way.devices is not None:
                    raise WrongError(
                        f"{where}: cannot add device {'/'.join(found.id)} "
                        "because a claim constraint would not be satisfied"
                    )
                return False
            self.log.append(Reported(claim, place, way.wish, values, is_added=True))
        return True

    def take_back(self, claim: int, wish: Wish, found: NameSearchResult, before: int) -> None:
        """Tell the constraints before this one that the device is not taken."""
        for place, constraint in enumerate(self.constraints(claim)[:before]):
            if rules.concerns(constraint, wish):
                self.log.append(Reported(claim, place, wish, frozenset(), is_added=False))

    # --- the result ---------------------------------------------------------------------------------------------------

    def result(self, claim: int) -> Json:
        mine = [each for each in self.chosen if each.claim == claim]
        devices: Json = {"results": [self.line(each) for each in mine]}
        config = self.config(claim, mine)
        if config:
            devices["config"] = config
        result: Json = {"devices": devices}
        selector = self.node_selector(claim, mine)
        if selector is not None:
            result["nodeSelector"] = selector
        return result

    def line(self, choice: Choice) -> Json:
        device, wish = choice.found.device, choice.wish
        driver, pool, name = choice.found.id
        line: Json = {"request": wish.full, "driver": driver, "pool": pool, "device": name}
        if wish.is_admin:
            line["adminAccess"] = True
        if wish.spec.get("tolerations"):
            line["tolerations"] = wish.spec["tolerations"]
        if {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= self.gates:
            for name in ("bindingConditions", "bindingFailureConditions"):
                if device.get(name):
                    line[name] = device[name]
        if choice.is_shared:
            line["shareID"] = "a share"
        if choice.takes:
            line["consumedCapacity"] = {self.published(name, choice.found): each for name, each in choice.takes.items()}
        return line

    def published(self, capacity: str, found: NameSearchResult) -> str:
        published = found.device.get("capacity", {})
        return capacity if capacity in published else capacity.removeprefix(f"{found.id[0]}/")

    def config(self, claim: int, mine: list[Choice]) -> list[Json]:
        picked = []
        for ways in self.ways[claim]:
            used = [way.wish for way in ways if any(each.wish == way.wish for each in mine)]
            picked.append(used[0] if used else ways[0].wish)
        made: list[Json] = []
        seen: list[str] = []
        for wish in picked:
            name = wish.spec["deviceClassName"]
            if name in seen:
                continue
            seen.append(name)
            names = [each.full for each in picked if each.spec["deviceClassName"] == name]
            made += [
                {"source": "FromClass", "requests": names, **each}
                for each in self.classes[name]["spec"].get("config", ())
            ]
        for each in self.claims[claim]["spec"]["devices"].get("config", ()):
            names = each.get("requests", [])
            hits = [wish for wish in picked if {wish.base, wish.full} & set(names)]
            times = len(hits) if names and self.version == "1.36" else int(bool(hits or not names))
            made += [{"source": "FromClaim", "requests": names, "opaque": each["opaque"]}] * times
        for place, each in enumerate(made):
            is_general = all({wish.base, wish.full} & set(each["requests"]) for wish in picked)
            if not each["requests"] or (self.version != "1.36" and is_general):
                made[place] = {name: value for name, value in each.items() if name != "requests"}
        return made

    def node_selector(self, claim: int, mine: list[Choice]) -> Json | None:
        kept: dict[str, list[Json]] = {"matchExpressions": [], "matchFields": []}
        for each in mine:
            spec = each.found.slice["spec"]
            place = each.found.device if spec.get("perDeviceNodeSelection") else spec
            if place.get("nodeName") is not None or each.found.device.get("bindsToNode"):
                only = {"key": "metadata.name", "operator": "In", "values": [self.node["metadata"]["name"]]}
                return {"nodeSelectorTerms": [{"matchFields": [only]}]}
            terms = (place.get("nodeSelector") or {}).get("nodeSelectorTerms", ())
            if len(terms) > 1:
                name = self.claims[claim]["metadata"]["name"]
                raise WrongError(
                    f"create NodeSelector for claim {name}: "
                    f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                )
            for term in terms:
                for kind, known in kept.items():
                    known += [one for one in term.get(kind, ()) if plain(one) not in map(plain, known)]
        term = {kind: requirements for kind, requirements in kept.items() if requirements}
        return {"nodeSelectorTerms": [term]} if term else None


def plain(requirement: Json) -> tuple[str, str, frozenset[str]]:
    return requirement["key"], requirement["operator"], frozenset(requirement.get("values", ()))


def key(claim: Json) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
