"""Random events upon a small cluster and a real scheduler, with rests in between at which everything must be right.

A run is *calm* or wild. In a calm one the scheduler comes to rest after each event, so that a pod that is parked waits
for exactly one: a hint that misses it shows at once, in a short story. Only where a pod is being tried or bound, one
thing more happens before that rest. In a wild one streams lag behind, pods are taken out of the queue and held,
Bindings wait for their answers, watches break, and rest comes late.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kscheduler.api.kinds import (
    KINDS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
)
from tests.scheduling.never_stuck import words
from tests.scheduling.never_stuck.beginnings import RecordedConfiguration, beginnings, node_traits, running, waiting
from tests.scheduling.never_stuck.drift_cases import problems
from tests.scheduling.never_stuck.remedies import helpful_event
from tests.scheduling.never_stuck.server import WATCHED, Server, Tree, key_of
from tests.scheduling.never_stuck.service import Service
from tests.scheduling.never_stuck.volumes import VolumeController
from tests.scheduling.never_stuck.words import Theme

# Of trying everybody, each 11 s: more than the 600 s that a pod may wait for its volumes.
MAX_ROUNDS: Final = 100


def _of_theme(strategy: Callable[[Theme], st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.runner().flatmap(lambda machine: strategy(machine.theme))


node_names = st.sampled_from(words.NODE_NAMES)
existing_pods = st.runner().flatmap(lambda machine: st.sampled_from([*machine.server.objects[PODS]]))
existing_nodes = st.runner().flatmap(lambda machine: st.sampled_from([*machine.server.objects[NODES]]))
kinds = st.sampled_from([kind.plural for kind in WATCHED])
has_pods = precondition(lambda self: self.server.objects[PODS])
has_nodes = precondition(lambda self: self.server.objects[NODES])
is_calm = precondition(lambda self: self.is_calm)
is_wild = precondition(lambda self: not self.is_calm)
has_parked_pods = precondition(lambda self: any(self.service.queue.parked()))
seeds = st.integers(0, 99)
has_storage = precondition(lambda self: self.theme.has_storage)
has_namespaces = precondition(lambda self: len(self.theme.namespaces) > 1)


class NeverStuck(RuleBasedStateMachine):
    """Nodes, pods and storage come, change and go; the scheduler tries; at rest nothing may be wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.service = Service()
        self.is_calm = False
        self._is_under_way = False
        """Somebody is being tried or bound: in a calm run one more thing happens before the rest."""
        self._rested_at: tuple[Any, ...] = ()
        self.theme = words.THEMES["everything"]
        self.node_traits: dict[str, list[str]] = {}
        self._volume_controller = VolumeController(self.server)

    @property
    def server(self) -> Server:
        return self.service.server

    @initialize(calm=st.booleans(), there=st.sampled_from([*words.THEMES]).flatmap(beginnings))
    def begin(self, calm: bool, there: Any) -> None:
        self.is_calm = calm
        theme, traits, waiting, running, storage = there
        self.theme = words.THEMES[theme]
        names = words.NODE_NAMES[: len(traits)]
        for name, of_node in zip(names, traits, strict=True):
            self._put_node(name, [words.ZONE_OF[name], *of_node])
        for name, states in words.STORAGE["storageclasses"].items():
            self._put_storage("storageclasses", name, next(iter(states)))
        for state in storage:
            self._put_storage(*state)
        for described in (*running, *waiting):
            self._put_pod(words.pod_tree(*described))

    # --- nodes --------------------------------------------------------------------------------------------------------

    @rule(name=node_names, traits=_of_theme(node_traits))
    def node_comes(self, name: str, traits: list[str]) -> None:
        self.server.delete(NODES, name)
        self._put_node(name, [words.ZONE_OF[name], *traits])

    @has_nodes
    @rule(name=existing_nodes)
    def node_goes(self, name: str) -> None:
        self.server.delete(NODES, name)

    @has_nodes
    @rule(name=existing_nodes, trait=_of_theme(lambda theme: st.sampled_from(theme.node_traits)))
    def node_gets_or_loses(self, name: str, trait: str) -> None:
        if self.server.get(NODES, name) is not None:
            traits = self.node_traits[name]
            self._put_node(name, [one for one in traits if one != trait] if trait in traits else [*traits, trait])

    def _put_node(self, name: str, traits: list[str]) -> None:
        self.node_traits[name] = traits
        self.server.put(NODES, words.node_tree(name, traits))

    # --- pods ---------------------------------------------------------------------------------------------------------

    @rule(described=_of_theme(waiting))
    def pod_comes(self, described: RecordedConfiguration) -> None:
        self._put_pod(words.pod_tree(*described))

    @rule(described=_of_theme(running))
    def running_pod_comes(self, described: RecordedConfiguration) -> None:
        self._put_pod(words.pod_tree(*described))

    @has_pods
    @rule(
        key=existing_pods,
        name=st.sampled_from(words.POD_NAMES),
        app=_of_theme(lambda theme: st.sampled_from(theme.apps)),
    )
    def one_like_it_comes(self, key: str, name: str, app: str) -> None:
        pod = self.server.get(PODS, key)
        if pod is not None:
            self._put_pod(words.alike(pod, name, app))

    def _put_pod(self, tree: Tree) -> None:
        """A new pod; one of its name has gone before."""
        self.server.delete(PODS, key_of(tree))
        self.server.put(PODS, tree)

    @has_pods
    @rule(key=existing_pods)
    def pod_goes(self, key: str) -> None:
        self.server.delete(PODS, key)

    @has_pods
    @rule(key=existing_pods, change=_of_theme(lambda theme: st.sampled_from(theme.changes)))
    def pod_changes(self, key: str, change: str) -> None:
        self._change_pod(key, words.POD_CHANGES[change])

    @has_pods
    @rule(key=existing_pods, node=st.sampled_from([*words.NODE_NAMES, ""]))
    def pod_is_nominated(self, key: str, node: str) -> None:
        self._change_pod(key, lambda pod: words.nominated(pod, node))

    def _change_pod(self, key: str, change: Any) -> None:
        pod = self.server.get(PODS, key)
        changed = change(pod) if pod is not None else None
        if changed:
            self.server.put(PODS, changed)

    @precondition(lambda self: any(map(words.is_victim, self.server.objects[PODS].values())))
    @rule()
    def victims_go(self) -> None:
        """Their kubelets have stopped what preemption began to delete."""
        for key in [*self.server.objects[PODS]]:
            if words.is_victim(self.server.objects[PODS][key]):
                self.server.delete(PODS, key)

    # --- the rest of the cluster --------------------------------------------------------------------------------------

    @has_namespaces
    @rule(name=st.sampled_from(words.NAMESPACES), team=st.sampled_from(["x", ""]))
    def namespace_is(self, name: str, team: str) -> None:
        self.server.put(NAMESPACES, {"metadata": {"name": name, "labels": {"team": team} if team else {}}})

    @has_namespaces
    @rule(name=st.sampled_from(words.NAMESPACES))
    def namespace_goes(self, name: str) -> None:
        self.server.delete(NAMESPACES, name)

    @precondition(lambda self: self.theme.name == "everything")
    @rule(app=st.sampled_from(["web", "db"]), comes=st.booleans())
    def service_comes_or_goes(self, app: str, comes: bool) -> None:
        if comes:
            self.server.put(SERVICES, {"metadata": {"name": app}, "spec": {"selector": {"app": app}}})
        else:
            self.server.delete(SERVICES, f"default/{app}")

    @has_storage
    @rule(what=st.sampled_from(words.STORAGE_STATES))
    def storage_is(self, what: tuple[str, str, str]) -> None:
        self._put_storage(*what)

    @has_storage
    @rule(what=st.sampled_from([(plural, name) for plural in words.STORAGE for name in words.STORAGE[plural]]))
    def storage_goes(self, what: tuple[str, str]) -> None:
        kind = KINDS[what[0]]
        self.server.delete(kind, f"default/{what[1]}" if kind.namespaced else what[1])

    @has_storage
    @has_pods
    @rule(key=existing_pods)
    def ephemeral_claim_comes(self, key: str) -> None:
        pod = self.server.get(PODS, key)
        if pod is not None:
            self._volume_controller.make_ephemeral_claim(pod)

    @has_storage
    @rule(volumes=st.booleans())
    def volume_controller_works(self, volumes: bool) -> None:
        self._volume_controller.work(refuses=not volumes)

    def _put_storage(self, plural: str, name: str, state: str) -> None:
        kind = KINDS[plural]
        if plural not in words.CHANGEABLE:
            self.server.delete(kind, f"default/{name}" if kind.namespaced else name)
        self.server.put(kind, words.storage_tree(plural, name, state))

    # --- the scheduler, and how its server serves it ------------------------------------------------------------------

    @is_wild
    @rule(plural=kinds, does=st.sampled_from(["delivers", "delivers", "repeats", "breaks"]))
    def watch(self, plural: str, does: str) -> None:
        kind = KINDS[plural]
        {"delivers": self.server.deliver, "repeats": self.server.repeat, "breaks": self.server.relist}[does](kind)

    @is_wild
    @rule()
    def watches_deliver(self) -> None:
        self.server.deliver_all()

    @is_wild
    @rule(pods=st.sampled_from([1, 2, 6]))
    def pods_are_tried(self, pods: int) -> None:
        for _ in range(pods):
            self.service.try_next()

    @is_wild
    @rule(judged=st.booleans())
    def pod_is_held_in_flight(self, judged: bool) -> None:
        self.service.hold(judged=judged)

    @is_calm
    @has_parked_pods
    @rule(seed=seeds)
    def something_helps(self, seed: int) -> None:
        """A parked pod is let through by one thing."""
        self._help(Random(seed), meanwhile=False)

    @is_calm
    @has_parked_pods
    @rule(seed=seeds)
    def something_helps_meanwhile(self, seed: int) -> None:
        """Likewise, while the pod is in flight, as if something else had just had it tried again."""
        self._help(Random(seed), meanwhile=True)

    def _help(self, random: Random, *, meanwhile: bool) -> None:
        parked = sorted(pod.key for pod in self.service.queue.parked())
        key = random.choice(parked) if parked else ""
        event = helpful_event(self, key, random) if key else None
        if event is not None:
            note(f"{key} is helped by {event[0]}")
            if meanwhile:
                self.service.queue.activate([key], self.service.clock.time())
                self.service.hold(judged=True)
            event[1]()

    @is_calm
    @rule(described=_of_theme(waiting))
    def pod_comes_and_is_not_bound_yet(self, described: RecordedConfiguration) -> None:
        self._put_pod(words.pod_tree(*described))
        self.server.deliver_all()
        while self.service.try_next():
            self._is_under_way = True

    @precondition(lambda self: self.service.held)
    @rule()
    def held_pod_goes_on(self) -> None:
        self.service.release()

    @precondition(lambda self: self.service.bindings)
    @rule(refused=st.booleans(), answered=st.booleans())
    def binding_is_applied(self, refused: bool, answered: bool) -> None:
        uid = next(iter(self.service.bindings))
        self.service.apply(uid, refused=refused)
        if answered:
            self.service.answer(uid)

    @is_wild
    @has_storage
    @rule(fail=st.booleans())
    def volume_writes(self, fail: bool) -> None:
        self.service.volume_writes_fail = fail

    @is_wild
    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.service.advance(seconds)

    # --- rest ---------------------------------------------------------------------------------------------------------

    @is_wild
    @rule()
    def rest(self) -> None:
        self.come_to_rest()

    @invariant()
    def rests_after_each_event(self) -> None:
        if self.is_calm and not self._is_under_way:
            self.come_to_rest()
        self._is_under_way = False

    def teardown(self) -> None:
        """Pods parked at the end of a calm run are helped, too."""
        try:
            self.come_to_rest()
            for meanwhile in (False, True) if self.is_calm else ():
                self._help(Random(self.server.version), meanwhile=meanwhile)
                self.come_to_rest()
        finally:
            self.service.close()

    def come_to_rest(self) -> None:
        """Try everybody until nothing moves any more; then everything must be right."""
        if self.is_calm and self._rested_at == self._position() and not self.service.held:
            return
        self.service.volume_writes_fail = False
        for _ in range(MAX_ROUNDS):
            before = self._position()
            self._round()
            if self._position() == before:
                break
        else:
            raise AssertionError("it never comes to rest")
        wrong = problems(self.service)
        if wrong:
            raise AssertionError("; ".join(wrong))
        self._rested_at = self._position()

    def _position(self) -> tuple[Any, ...]:
        parked = sorted((pod.key, pod.pod.uid) for pod in self.service.queue.parked())
        return self.server.version, self.service.is_binding() and self.service.clock.time(), parked

    def _round(self) -> None:
        self._volume_controller.work()
        self.victims_go()
        self.server.deliver_all()
        while self.service.held:
            self.service.release()
        self._answer_all()
        self.service.advance(11.0)
        for _ in range(50):
            if not self.service.try_next():
                break
            self._answer_all()
        self.server.deliver_all()

    def _answer_all(self) -> None:
        for uid in [*self.service.bindings]:
            self.service.answer(uid)
        self.server.deliver_all()

    def where(self, key: str) -> str:
        """The queue that a pod is in, or the node that it is on."""
        found = self.service.queue.find(key)
        pod = self.server.objects[PODS].get(key)
        return found[0] if found is not None else str(pod["spec"].get("nodeName", "")) if pod is not None else ""
