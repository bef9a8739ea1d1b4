"""Whether the pods of a benchmark stand where they may: a fast scheduler that breaks the rules has won nothing.

Everything is computed from the API server's JSON at the end, from what the pods' own specs ask for, so it holds for any
workload; nothing of kscheduler is imported. Pods only come during a run, so two facts about the end tell about
each bind: a hard spread constraint bounds the skew at the end (the emptiest domain only ever fills), and two pods that
may not share a host and do not, never did. Limits: selectors are `matchLabels` with a label at least, and pods with
required anti-affinity refuse their own like, which is all the workloads use.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.e2e.audit import Object, name_of, overcommitted, selects

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Labels = tuple[tuple[str, str], ...]
# A topology key, and the labels of the pods that count.
Rule = tuple[str, Labels]


def room_faults(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """A line per node and resource past its allocatable: what even a client that decides nothing must not do."""
    return overcommitted(nodes, pods)


def rule_faults(nodes: Sequence[Object], pods: Sequence[Object]) -> list[str]:
    """A line per broken node affinity, hard spread constraint and required anti-affinity. Raises ValueError."""
    placement = Placement(nodes, pods)
    return [*placement.misplaced(), *placement.uneven(), *placement.too_close()]


class Placement:
    """Which pods are where, found by their labels."""

    def __init__(self, nodes: Sequence[Object], pods: Sequence[Object]) -> None:
        self._nodes = {name_of(node): node for node in nodes}
        self._bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        self._by_label: dict[tuple[str, str], list[Object]] = {}
        for pod in self._bound:
            for label in pod["metadata"].get("labels", {}).items():
                self._by_label.setdefault(label, []).append(pod)

    def misplaced(self) -> Iterator[str]:
        """Pods on nodes that their selector or required node affinity does not match."""
        for pod in self._bound:
            if not selects(pod, self._nodes[pod["spec"]["nodeName"]]):
                yield f"pod {name_of(pod)} does not belong on {pod['spec']['nodeName']}"

    def uneven(self) -> Iterator[str]:
        """Hard spread constraints whose skew is past the limit, over all nodes that have the key."""
        for rule, limit in sorted(hard_spreads(self._bound)):
            counts = self._count(rule)
            domains = {domain for node in self._nodes.values() if (domain := label_of(node, rule[0]))}
            skew = max(counts.values(), default=0) - min((counts[domain] for domain in domains), default=0)
            if skew > limit:
                yield f"pods {dict(rule[1])} are uneven over {rule[0]}: skew {skew}, at most {limit} allowed"

    def too_close(self) -> Iterator[str]:
        """Domains that hold a pod and another that it refuses beside it."""
        for rule in sorted(refusals(self._bound)):
            for domain, count in self._count(rule).items():
                if count > 1:
                    yield f"{count} pods {dict(rule[1])} share {rule[0]} {domain}"

    def _count(self, rule: Rule) -> Counter[str]:
        """Pods that the rule counts, by domain; those on nodes without the key are left out."""
        key, wanted = rule
        matching = (pod for pod in self._by_label.get(wanted[0], ()) if has_labels(pod, wanted))
        domains = (label_of(self._nodes[pod["spec"]["nodeName"]], key) for pod in matching)
        return Counter(domain for domain in domains if domain)


def label_of(thing: Object, key: str) -> str:
    """The value of this label, empty if there is none."""
    return str(thing["metadata"].get("labels", {}).get(key, ""))


def has_labels(pod: Object, wanted: Labels) -> bool:
    return all(label_of(pod, key) == value for key, value in wanted)


def hard_spreads(pods: Iterable[Object]) -> set[tuple[Rule, int]]:
    """With the skew that each allows."""
    constraints = (one for pod in pods for one in pod["spec"].get("topologySpreadConstraints", ()))
    return {(rule_of(one), one["maxSkew"]) for one in constraints if one["whenUnsatisfiable"] == "DoNotSchedule"}


def refusals(pods: Iterable[Object]) -> set[Rule]:
    """The terms of required anti-affinity."""
    anti = (pod["spec"].get("affinity", {}).get("podAntiAffinity", {}) for pod in pods)
    return {rule_of(term) for one in anti for term in one.get(REQUIRED, ())}


def rule_of(term: Object) -> Rule:
    """What a constraint or term counts. Raises ValueError for a selector that this audit cannot judge."""
    selector = term["labelSelector"]
    if not selector.get("matchLabels") or len(selector) > 1:
        raise ValueError(f"the audit knows matchLabels only, not {selector}")
    return term["topologyKey"], tuple(sorted(selector["matchLabels"].items()))
