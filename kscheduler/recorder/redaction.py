"""What becomes of objects, entries and snapshots on their way into the file.

Texts lose their words and keep their numbers (`numbers_in`): what a condition says of how many nodes is compared, and
what it names is not there.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import yaml

from kscheduler.api.meta import KubeObject
from kscheduler.recorder.entries import Op, Output
from kscheduler.recorder.redacted_objects import NAMED_BY_USE, ObjectRedaction, Pseudonyms, numbers_in
from kscheduler.state.queue.queue_snapshot import FACTS

_LAST_ERROR: Final = FACTS.index("last_error")
_PODS_OF_PREEMPTION: Final = ("all", "outbid", "victims", "stopped", "awaited", "last", "neighbours")
# A key of the recorded configuration: whether names are pseudonyms.
REDACTED: Final = "redacted"


class Redaction:
    """None: everything is written as it is."""

    is_on = False

    def text(self, name: str) -> str:
        """A name, or `namespace/name`."""
        return name

    def part(self, value: Any) -> Any:
        """An object or a part of it."""
        return value

    def key(self, obj: KubeObject) -> str:
        """The key of an object in the file."""
        return obj.key

    def entry(self, entry: Sequence[Any]) -> Sequence[Any]:
        """An entry without its time; objects are as they are packed."""
        return entry

    def settings(self, tree: Any) -> Any:
        """A configuration as it is described."""
        return tree

    def state(self, state: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
        """The last part of a snapshot; `kinds`: by number, the resources."""
        del kinds
        return state


NO_REDACTION: Final = Redaction()


class KeyedRedaction(Redaction):
    """Names become pseudonyms."""

    is_on = True

    def __init__(self, key: bytes) -> None:
        self._names = names = Pseudonyms(key)
        self._label = names.label
        self._objects = ObjectRedaction(names)
        self._entries: dict[int, Callable[..., Sequence[Any]]] = {
            Op.DECIDED: self._decided,
            Op.GROUP: self._group,
            Op.GROUP_WAITS: lambda name: (self.text(name),),
            Op.LATER: self._later,
            Op.ABANDONED: self._abandoned,
            Op.GIVEN_UP: self._given_up,
            Op.EVICTION: self._eviction,
            Op.TOUCHED: lambda names, plugin: (self._all(names), plugin),
            Op.REPAIRED: lambda _what: ("the recording is redacted",),
        }

    def text(self, name: str) -> str:
        """Each part of its own."""
        return self._names.text(name)

    def part(self, value: Any) -> Any:
        """With pseudonyms in its fields."""
        return self._objects.redacted(value)

    def key(self, obj: KubeObject) -> str:
        """As the redacted object's."""
        return obj.key if isinstance(obj, NAMED_BY_USE) else self.text(obj.key)

    def entry(self, entry: Sequence[Any]) -> Sequence[Any]:
        """Steps that name nobody, or only UIDs, stay."""
        change = self._entries.get(entry[0])
        return entry if change is None else (entry[0], *change(*entry[1:]))

    # --- entries ------------------------------------------------------------------------------------------------------

    def _all(self, names: Sequence[str]) -> list[str]:
        return [self.text(name) for name in names]

    def _outputs(self, outputs: Sequence[Any]) -> list[Any]:
        return [self._output(*output) for output in outputs]

    def _output(self, kind: int, name: str, *rest: Any) -> tuple[Any, ...]:
        if kind == Output.FAILED:
            message, node, *others = rest
            return kind, self.text(name), numbers_in(message), node and self.text(node), *others
        if kind == Output.PREEMPTS:
            node, victims = rest
            return kind, self.text(name), self.text(node), self._all(victims)
        if kind == Output.CONTINUES_IN_BACKGROUND:
            return kind, self.text(name), self.text(*rest)
        return kind, self.text(name), *rest

    def _decided(self, number: int, key: str, attempts: int, how: int, node: str, outputs: Any) -> Sequence[Any]:
        return number, self.text(key), attempts, how, self.text(node), self._outputs(outputs)

    def _group(self, name: str, placed: Sequence[Any], outputs: Any) -> Sequence[Any]:
        pods = [(number, self.text(key), self.text(node)) for number, key, node in placed]
        return self.text(name), pods, self._outputs(outputs)

    def _later(self, number: int, key: str, has_node: bool, node: str, outputs: Any) -> Sequence[Any]:
        return number, self.text(key), has_node, self.text(node), self._outputs(outputs)

    def _abandoned(
        self, number: int, code: int, reasons: Sequence[str], plugin: str, fault: str, outputs: Any
    ) -> Sequence[Any]:
        return number, code, [numbers_in(reason) for reason in reasons], plugin, fault, self._outputs(outputs)

    def _given_up(self, number: int, text: str, outputs: Any) -> Sequence[Any]:
        return number, text.partition(":")[0], self._outputs(outputs)

    def _eviction(self, number: int, step: int, uid: str, keys: Sequence[str]) -> Sequence[Any]:
        return number, step, uid, self._all(keys)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def settings(self, tree: Any) -> Any:
        """Label values that the configuration itself asks nodes for must be those of the redacted nodes."""
        text = tree["configuration"]
        if "match" in text:
            found = self._selectors(yaml.safe_load(text))
            text = yaml.safe_dump(found, sort_keys=True, allow_unicode=True, width=120)
        return {**tree, "configuration": text, REDACTED: True}

    def _selectors(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self._selectors(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        found = {key: self._selectors(value) for key, value in tree.items()}
        if {"key", "operator", "values"} <= found.keys():
            found["values"] = [self._label(str(value)) for value in found["values"]]
        if isinstance(found.get("matchLabels"), dict):
            found["matchLabels"] = {key: self._label(str(value)) for key, value in found["matchLabels"].items()}
        return found

    def state(self, state: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
        """Who is where, by pseudonyms."""
        kept = {number for number, resource in enumerate(kinds) if resource in _KEPT_KINDS}
        text, pod = self.text, self._pod

        def named(reference: Any) -> Any:
            if reference is None:
                return None
            kind, name = reference
            return kind, name if kind in kept else pod(name)

        def event(seen: Any) -> Any:
            return seen if isinstance(seen, str) else (*seen[:4], named(seen[4]), named(seen[5]), seen[6])

        return {
            **state,
            "nodes": [(text(name), [(pod(each), *rest) for each, *rest in pods]) for name, pods in state["nodes"]],
            "nominated": [(text(node), pod(each)) for node, each in state["nominated"]],
            "queue": [
                (place, common, [(pod(each), self._facts(facts)) for each, facts in members])
                for place, common, members in state["queue"]
            ],
            "in flight": [event(each) for each in state["in flight"]],
            "in flight keys": [(uid, text(key)) for uid, key in state["in flight keys"]],
            "held": [(pod(each), text(node), *rest) for each, node, *rest in state["held"]],
            "attempts": [
                (number, pod(each), self._facts(facts), text(node)) for number, each, facts, node in state["attempts"]
            ],
            "reserved": [
                (
                    number,
                    [(uid, named(claim)) for uid, claim in claims],
                    [(named(volume), named(claim)) for volume, claim in bindings],
                    list(map(named, provisions)),
                )
                for number, claims, bindings, provisions in state["reserved"]
            ],
            "pending claims": [(uid, named(claim), sharers) for uid, claim, sharers in state["pending claims"]],
            "assumed claims": list(map(named, state["assumed claims"])),
            "assumed volumes": list(map(named, state["assumed volumes"])),
            "preemptions": [self._preemption(each) for each in state["preemptions"]],
            "pausing": [text(key) for key in state["pausing"]],
        }

    def _pod(self, name: str | int) -> str | int:
        return name if isinstance(name, int) else self.text(name)

    def _facts(self, facts: Any) -> Any:
        if facts is None or not facts[_LAST_ERROR]:
            return facts
        return [numbers_in(fact) if number == _LAST_ERROR else fact for number, fact in enumerate(facts)]

    def _preemption(self, packed: dict[str, Any]) -> dict[str, Any]:
        lists = {name: [self._pod(each) for each in packed[name]] for name in _PODS_OF_PREEMPTION}
        return {**packed, **lists, "preemptor": self._pod(packed["preemptor"]), "node": self.text(packed["node"])}


_KEPT_KINDS: Final = frozenset(("csidrivers.storage.k8s.io", "deviceclasses.resource.k8s.io"))
