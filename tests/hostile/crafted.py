"""Hostile objects whose harm is in their shape rather than in one field: expressions, mixtures, gangs, crowds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS, Kind
from tests.hostile.sound import NODE, Tree
from tests.hostile.words import LONGEST_EXPRESSION

# A kind and an object of it as JSON.
Made = tuple[Kind, Tree]

NAMESPACE: Final = "hostile"
MAX_SELECTORS: Final = 20
# What an API server does not take; a scheduler may still meet it, of a server of another release.
REFUSED: Final = frozenset({"ResourceClaim-cel-long-number", "ResourceClaim-cel-broken", "ResourceClaim-cel-ternaries"})


def pod(
    name: str, *, labels: Mapping[str, str] = {}, annotations: Mapping[str, str] = {}, node: str = "", **spec: Any
) -> Made:
    """A small pod of the hostile namespace."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": dict(labels)}
    metadata["annotations"] = dict(annotations)
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1m"}}}
    whole = {"schedulerName": "kscheduler", "containers": [container], **({"nodeName": node} if node else {}), **spec}
    return PODS, {"metadata": metadata, "spec": whole}


def _nested_lists(seed: int) -> str:
    deep = 240
    return f"{'[' * deep}{seed}{']' * deep}==[]"


def _chain(call: str, seed: int, longest: int = 10_000) -> str:
    head = f"[{seed}]"
    return head + call * ((min(longest, LONGEST_EXPRESSION) - len(head) - 20) // len(call)) + ".size() > 0"


_EXPRESSIONS: Final[Mapping[str, Callable[[int], str]]] = {
    "nested-lists": lambda seed: " || ".join([_nested_lists(seed)] * 20)[:LONGEST_EXPRESSION],
    "one-nested-list": _nested_lists,
    "nested-maps": lambda seed: f"{'{1:' * 200}{seed}{'}' * 200} == {{}}",
    "map-chain": lambda seed: _chain(".map(x, [x, x])", seed, 2400),
    "short-map-chain": lambda seed: _chain(".map(x, [x, x])", seed, 200),
    "filter-chain": lambda seed: _chain(".filter(x, true)", seed, 2400),
    "nested-all": lambda seed: f"{'[1,2,3,4,5,6,7,8].all(x, ' * 12}{seed} > 0{')' * 12}",
    "nots": lambda seed: f"{'!' * 200}(device.driver == 'd{seed}')",
    "minuses": lambda seed: f"{'-' * 200}{seed} == 1",
    "parentheses": lambda seed: f"{'(' * 200}{seed}{')' * 200} == 1",
    "ternaries": lambda seed: "true ? " * 30 + f"{seed} == 1" + " : false" * 30,
    "ors": lambda seed: " || ".join(f"device.driver == 'd{seed}-{n}'" for n in range(300)),
    "additions": lambda seed: f"{'+'.join([str(seed)] * 200)} == 1",
    "string-additions": lambda seed: f"{'+'.join([repr(str(seed))] * 200)} == ''",
    "long-text": lambda seed: f"device.driver == '{str(seed).rjust(10_000, 'x')}'",
    "regex": lambda seed: f"device.driver.matches('{'(a*)*' * 500}{seed}')",
    "regexes-that-hold": lambda seed: f"!device.driver.matches('{'(a*)*' * 240}{seed}')",
    "regex-of-options": lambda seed: f"device.driver.matches('(?:a?){{900}}a{{900}}{seed}')",
    "dear": lambda seed: (
        f"[1,2,3,4,5,6,7,8].all(x, [1,2,3,4,5,6,7,8].all(y, [1,2,3].all(z, x + y + z < {1000 + seed})))"
    ),
    "long-number": lambda seed: f"{'9' * 9000}{seed} == 1",
    "fields": lambda seed: f"device.attributes['x.io'].a{'.b' * 200} == {seed}",
    "indexes": lambda seed: f"device.attributes{'[device.driver]' * 200} == {seed}",
    "broken": lambda seed: f"{'(' * 5000}{seed}",
}


def _claim(seed: int, *, count: int, make: Callable[[int], str], name: str = "") -> Made:
    selectors = [{"cel": {"expression": make(seed * 100 + number)[:LONGEST_EXPRESSION]}} for number in range(count)]
    wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": selectors}
    name = name or f"hostile-{seed}"
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    return RESOURCE_CLAIMS, {
        "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": "r", "exactly": wanted}]}},
    }


def _with_expression(make: Callable[[int], str]) -> Callable[[int, int], Sequence[Made]]:
    def objects(seed: int, size: int) -> Sequence[Made]:
        count = max(1, min(MAX_SELECTORS, size // LONGEST_EXPRESSION))
        claim = [{"name": "one", "resourceClaimName": f"hostile-{seed}"}]
        return [_claim(seed, count=count, make=make), pod(f"user-{seed}", resourceClaims=claim)]

    return objects


def _requests_that_nothing_satisfies(seed: int, name: str, count: int) -> Made:
    expression = {"cel": {"expression": f"device.driver != 'd{seed}'"}}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": [expression]}
    requests = [{"name": f"r-{number}", "exactly": exactly} for number in range(count)]
    unlike = [{"requests": [], "matchAttribute": f"x.io/a{seed}"}, {"requests": [], "distinctAttribute": "x.io/model"}]
    spec = {"devices": {"requests": requests, "constraints": unlike[1:]}}
    return RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}, "spec": spec}


def _searching_claim(seed: int, _: int) -> Sequence[Made]:
    name = f"hostile-{seed}"
    user = pod(f"user-{seed}", resourceClaims=[{"name": "one", "resourceClaimName": name}])
    return [_requests_that_nothing_satisfies(seed, name, 10), user]


def _pod_of_many_claims(seed: int, size: int) -> Sequence[Made]:
    """Each claim has as many requests as it may; each entry of a pod may name any claim, all the same one."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": f"r-{number}", "exactly": exactly} for number in range(32)]
    names = [f"hostile-{seed}-{number}" for number in range(size // 2000)]
    spec = {"devices": {"requests": requests}}
    identities = [{"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"} for name in names]
    claims = [(RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec}) for metadata in identities]
    once = [{"name": name, "resourceClaimName": name} for name in names]
    often = [{"name": f"c-{number}", "resourceClaimName": names[0]} for number in range(size // 60)]
    return [*claims, pod(f"user-{seed}", resourceClaims=once), pod(f"other-{seed}", resourceClaims=often)]


def _searching_group(seed: int, _: int) -> Sequence[Made]:
    name, members = f"hostile-{seed}", 10
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    policy = {"schedulingPolicy": {"gang": {"minCount": members}}}
    claims = [_requests_that_nothing_satisfies(seed, f"{name}-{number}", 10) for number in range(members)]
    group = {"podGroupName": name}
    users = [
        pod(
            f"user-{seed}-{n}",
            schedulingGroup=group,
            resourceClaims=[{"name": "one", "resourceClaimName": f"{name}-{n}"}],
        )
        for n in range(members)
    ]
    return [(POD_GROUPS, {"metadata": metadata, "spec": policy}), *claims, *users]


def _gang_of_giants(seed: int, size: int) -> Sequence[Made]:
    name = f"hostile-{seed}"
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    group = POD_GROUPS, {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": 8}}}}
    return [group, *(_of_keys(f"{name}-{n}", seed * 10 + n, size // 8, schedulingGroup={"podGroupName": name})
                     for n in range(8))]  # fmt: skip


def _of_keys(name: str, seed: int, size: int, **spec: Any) -> Made:
    terms = [
        {"matchExpressions": [{"key": f"k{seed}-{number}", "operator": "DoesNotExist"}]} for number in range(size // 70)
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": [one["matchExpressions"][0] for one in terms]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod(name, affinity=affinity, **spec)


def _all_at_once(seed: int, size: int) -> Sequence[Made]:
    """A pod with some of everything that plugins evaluate."""
    count = max(size // 900, 1)
    numbers = range(count)
    selector = [{"labelSelector": {"matchExpressions": [{"key": f"k{seed}-{n}", "operator": "DoesNotExist"}]},
                 "topologyKey": "zone"} for n in numbers]  # fmt: skip
    preferred = [{"weight": 1, "podAffinityTerm": {**one, "namespaceSelector": {}}} for one in selector]
    node_terms = [{"matchExpressions": [{"key": f"k{seed}-{n}", "operator": "DoesNotExist"}]} for n in numbers]
    spread = [
        {"maxSkew": 1, "topologyKey": f"k{seed}-{n}", "whenUnsatisfiable": "ScheduleAnyway",
         "labelSelector": {"matchLabels": {f"k{seed}-{n}": "x"}}}
        for n in numbers
    ]  # fmt: skip
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": node_terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": term} for term in node_terms
            ],
        },
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector},
    }
    labels = {f"l{seed}-{n}": f"v{seed}-{n}" for n in numbers}
    tolerations = [{"key": f"t{seed}-{n}", "operator": "Exists"} for n in numbers]
    return [pod(f"hostile-{seed}", labels=labels, affinity=affinity, tolerations=tolerations,
                topologySpreadConstraints=spread)]  # fmt: skip


def _running(make: Callable[[int, int], Sequence[Made]]) -> Callable[[int, int], Sequence[Made]]:
    """The same pods, on a node already: others are judged by what they hold."""

    def objects(seed: int, size: int) -> Sequence[Made]:
        for _, tree in (made := list(make(seed, size))):
            tree["spec"]["nodeName"] = NODE
            tree["status"] = {"phase": "Running"}
        return made

    return objects


def _crowd(spec: Callable[[str], Tree]) -> Callable[[int, int], Sequence[Made]]:
    """Many small pods, each with words of its own."""

    def objects(seed: int, size: int) -> Sequence[Made]:
        names = [f"crowd-{seed}-{number}" for number in range(max(1, min(500, size // 1000)))]
        return [pod(name, **spec(name)) for name in names]

    return objects


def _crowds() -> Iterator[tuple[str, tuple[Kind, Callable[[int, int], Sequence[Made]]]]]:
    never = {"matchExpressions": [{"key": "no-such-label", "operator": "Exists"}]}
    kinds: dict[str, Callable[[str], Tree]] = {
        "selectors": lambda name: {"nodeSelector": {name: name}},
        "labels": lambda name: {"labels": {name: name}},
        "tolerations": lambda name: {"tolerations": [{"key": name, "operator": "Exists"}]},
        "topology-keys": lambda name: {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": name, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": never}]},
        "requests": lambda name: {"containers": [{"name": "c", "image": name, "resources": {
            "requests": {f"x.io/{name}": "1"}, "limits": {f"x.io/{name}": "1"}}}]},
        "gates": lambda name: {"schedulingGates": [{"name": name}]},
        "priorities": lambda name: {"priority": int(name.rpartition("-")[2])},
    }  # fmt: skip
    for name, spec in kinds.items():
        yield f"Pod-crowd-of-{name}", (PODS, _crowd(spec))


# By id: the main kind, and what makes the objects.
CRAFTED: Final[Mapping[str, tuple[Kind, Callable[[int, int], Sequence[Made]]]]] = {
    **{f"ResourceClaim-cel-{name}": (RESOURCE_CLAIMS, _with_expression(make)) for name, make in _EXPRESSIONS.items()},
    "ResourceClaim-search-without-end": (RESOURCE_CLAIMS, _searching_claim),
    "ResourceClaim-many-in-a-pod": (RESOURCE_CLAIMS, _pod_of_many_claims),
    "PodGroup-search-without-end": (POD_GROUPS, _searching_group),
    "PodGroup-of-giants": (POD_GROUPS, _gang_of_giants),
    "Pod-all-at-once": (PODS, _all_at_once),
    "Pod-all-at-once-running": (PODS, _running(_all_at_once)),
    "Pod-one-term-of-all-keys": (PODS, lambda seed, size: [_of_keys(f"hostile-{seed}", seed, size)]),
    **dict(_crowds()),
}
