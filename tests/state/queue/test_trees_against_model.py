"""Trees of groups in the queue, against a model that looks everything up again: who waits where, whatever comes."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kscheduler.api.groups import COMPOSITE_POD_GROUPS, DEEPEST_TREE
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey, has_quorum
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.state.group_apis import kubernetes_apis
from kscheduler.state.pod_groups import PodGroupTable
from kscheduler.state.queue.admission import QueuePolicy
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.queued_group import GroupOutcome, QueuedPodGroup
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from tests.builders import make_pod
from tests.effort import example_count
from tests.state.queue.model import sort_key

API = "scheduling.k8s.io"
GROUPS = st.sampled_from(["a", "b", "c"])
COMPOSITES = st.sampled_from(["x", "y", "z"])
PARENTS = st.sampled_from(["x", "x", "x", "y", "z", None])
ABOVE = st.sampled_from([None, None, "x", "y", "z"])
NUMBERS = st.integers(0, 1)
LEAST = st.integers(1, 2)


def leaf(name: str) -> GroupKey:
    return GroupKey(API, "default", name)


def composite(name: str) -> GroupKey:
    return GroupKey(API, "default", name, is_composite=True)


class TreeMachine(RuleBasedStateMachine):
    """Groups, composite groups and pods come and go in any order, circles included; trees are tried and fail."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PodGroupTable(kubernetes_apis(None, COMPOSITE_POD_GROUPS))
        policy = QueuePolicy(
            sort_key, self.pre_enqueue, HintTable({}), BackoffPolicy(0.0, 0.0), lambda *_: None, groups=self.table
        )
        self.queue = SchedulingQueue(policy)
        self.known: dict[GroupKey, tuple[int, GroupKey | None]] = {}
        """The model: by group how many it needs at least, and its parent."""
        self.pods: dict[str, GroupKey] = {}
        self.tried: QueuedPodGroup | None = None

    def pre_enqueue(self, pod: PodInfo, first: str) -> Status:
        del first
        key = self.table.key_of(pod.pod)
        root = self.table.root_of(key) if key is not None else None
        definition = self.table.definition(root) if root is not None else None
        is_ready = definition is not None and has_quorum(self.table, definition, self.table.count_all)
        return SUCCESS if is_ready else unresolvable("too few", plugin="GangScheduling")

    # --- the watch

    @rule(group=GROUPS, number=NUMBERS)
    def pod_comes(self, group: str, number: int) -> None:
        name = f"{group}{number}"
        if name in self.pods:
            return
        pod = PodInfo(make_pod(name, uid=name, schedulingGroup={"podGroupName": group}))
        self.pods[name] = leaf(group)
        self.table.add_member(pod)
        self.queue.add(pod, 1000.0)

    @precondition(lambda self: self.tried is None)
    @rule(group=GROUPS, number=NUMBERS)
    def pod_goes(self, group: str, number: int) -> None:
        name = f"{group}{number}"
        if self.pods.pop(name, None) is not None:
            self.table.remove_member(PodInfo(make_pod(name, uid=name, schedulingGroup={"podGroupName": group})))
            self.queue.delete(f"default/{name}")

    @rule(name=GROUPS, parent=PARENTS, least=LEAST)
    def group_comes(self, name: str, parent: str | None, least: int) -> None:
        self.comes(leaf(name), parent, least)

    @rule(name=COMPOSITES, parent=ABOVE, least=LEAST)
    def composite_comes(self, name: str, parent: str | None, least: int) -> None:
        self.comes(composite(name), parent, least)

    def comes(self, key: GroupKey, parent: str | None, least: int) -> None:
        above = composite(parent) if parent is not None else None
        if key in self.known:
            return
        self.known[key] = least, above
        self.table.put(GroupDefinition(key, least, parent=above))
        self.queue.group_appeared(key, 1000.0)

    @rule(name=GROUPS)
    def group_goes(self, name: str) -> None:
        self.goes(leaf(name))

    @rule(name=COMPOSITES)
    def composite_goes(self, name: str) -> None:
        self.goes(composite(name))

    def goes(self, key: GroupKey) -> None:
        if self.known.pop(key, None) is None:
            return
        root = self.table.root_of(key)
        self.table.remove(key)
        if root is not None:
            self.queue.group_gone(root, 1000.0)

    # --- attempts

    @precondition(lambda self: self.tried is None)
    @rule()
    def pop(self) -> None:
        popped = self.queue.pop_next(1000.0)
        ready = [name for name in self.pods if self.place(name) == "active"]
        assert (popped is None) is (not ready)
        if popped is not None:
            assert isinstance(popped, QueuedPodGroup)
            tree = {name for name, group in self.pods.items() if self.root(group) == popped.key}
            assert {member.pod.name for member in popped.members.values()} == tree
            self.tried = popped

    @precondition(lambda self: self.tried is not None)
    @rule()
    def the_attempt_fails(self) -> None:
        assert self.tried is not None
        tried, self.tried = self.tried, None
        for queued in tried.in_order():
            self.queue.requeue(queued, 1000.0)
        self.queue.group_attempted(tried, GroupOutcome.REJECTED, 1000.0)
        self.queue.flush_backoff(2000.0)

    # --- what must hold

    def root(self, group: GroupKey) -> GroupKey | None:
        at: GroupKey | None = group
        for _ in range(DEEPEST_TREE):
            if at not in self.known:
                return None
            above = self.known[at][1]
            if above is None:
                return at
            at = above
        return None

    def is_ready(self, group: GroupKey) -> bool:
        least = self.known[group][0]
        if not group.is_composite:
            return sum(named == group for named in self.pods.values()) >= least
        return sum(self.is_ready(child) for child, (_, parent) in self.known.items() if parent == group) >= least

    def place(self, name: str) -> str:
        root = self.root(self.pods[name])
        if root is None:
            return "incomplete"
        if self.tried is not None and root == self.tried.key:
            return "pending"
        return "active" if self.is_ready(root) else "gated"

    @invariant()
    def every_member_is_where_it_must_be(self) -> None:
        flying: Any = {} if self.tried is None else self.tried.members
        for name in self.pods:
            found = self.queue.find(f"default/{name}")
            if f"default/{name}" in flying:
                assert found is None, name
                continue
            assert found is not None, name
            assert found[0] == self.place(name), name


TestTrees = TreeMachine.TestCase
TestTrees.settings = settings(max_examples=example_count(150), stateful_step_count=40, deadline=None)
