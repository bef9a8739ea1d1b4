"""Whatever happens to nodes and pods between two looks: what is found is what adding everything up finds."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.framework.pods.pod_info import PodInfo
from tests.builders import Tree, make_node, make_pod
from tests.effort import example_count
from tests.scheduling.overcommit.overcommitted import Looking

NODES = st.sampled_from(["a", "b", "c"])
PODS = st.integers(0, 9).map("p{}".format)
GPU = "example.com/gpu"
REQUESTS = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["1", "2500m", "3"]), GPU: st.sampled_from(["1", "2"])}
)
PORTS = st.lists(
    st.tuples(
        st.sampled_from(["TCP", "UDP"]), st.sampled_from([80, 81]), st.sampled_from(["", "10.0.0.1", "10.0.0.2"])
    ),
    max_size=2,
    unique=True,
)


def containers(requests: Tree, ports: list[tuple[str, int, str]]) -> list[Tree]:
    claims = [{"protocol": name, "hostPort": port, "hostIP": address} for name, port, address in ports]
    return [{"name": "main", "image": "app", "resources": {"requests": requests}, "ports": claims}]


class Overfilling(RuleBasedStateMachine):
    """Nodes that come, change and go; pods of everybody on them."""

    def __init__(self) -> None:
        super().__init__()
        self.look = Looking(make_node("a"))
        self.begun: set[tuple[str, str]] = set()

    @rule(name=NODES, cpu=st.sampled_from(["2", "4", "8"]), pods=st.sampled_from(["2", "110"]), gpus=st.integers(-1, 2))
    def node(self, name: str, cpu: str, pods: str, gpus: int) -> None:
        more = {GPU: str(gpus)} if gpus >= 0 else {}
        self.look.cache.add_node(make_node(name, cpu=cpu, pods=pods, **more))

    @rule(name=NODES)
    def node_goes(self, name: str) -> None:
        self.look.cache.remove_node(name)

    @rule(name=PODS, node=NODES, requests=REQUESTS, ports=PORTS)
    def pod(self, name: str, node: str, requests: Tree, ports: list[tuple[str, int, str]]) -> None:
        """It comes, changes, or turns out to be elsewhere."""
        self.look.cache.add_pod(make_pod(name, node=node, containers=containers(requests, ports)))

    @rule(name=PODS, node=NODES, requests=REQUESTS)
    def pod_is_assumed(self, name: str, node: str, requests: Tree) -> None:
        if not self.look.cache.node_of(f"uid-of-{name}"):
            self.look.cache.assume_pod(PodInfo(make_pod(name, requests=requests)), node)

    @rule(name=PODS)
    def pod_goes(self, name: str) -> None:
        self.look.cache.remove_pod(f"uid-of-{name}")

    @rule()
    def look_at_all(self) -> None:
        assert set(self.look.found()) == self.added_up()

    @invariant()
    def each_incident_was_reported_once_for_each_time_it_began(self) -> None:
        open_now = {(one.node_name, one.excess.resource) for one in self.look.nodes.incidents()}
        ended = [(node, resource) for node, resource, _, _ in self.look.heard.ended_as]
        begun = [(one.node_name, one.excess.resource) for one in self.look.heard.begun]
        assert sorted(begun) == sorted([*ended, *open_now])

    def added_up(self) -> set[tuple[str, str]]:
        """What is exceeded, by the slow way: every pod of every node, from its objects."""
        found = set()
        cache = self.look.cache
        for name in ("a", "b", "c"):
            info = cache.node_info(name)
            if info is None or info.node is None:
                continue
            pods = [pod for uid in cache.pod_uids() if cache.node_of(uid) == name and (pod := cache.pod_of(uid))]
            amounts = {"cpu": 0, "pods": len(pods), GPU: 0}
            for pod in pods:
                for resource in ("cpu", GPU):
                    amounts[resource] += PodInfo(pod.pod).accounted.get(resource, 0)
            for resource, allocatable in info.allocatable.items():
                if amounts.get(resource, 0) > allocatable:
                    found.add((name, resource))
            claims = [(pod.uid, *claim) for pod in pods for claim in PodInfo(pod.pod).host_ports]
            for uid, protocol, port, address in claims:
                for other_uid, other_protocol, other_port, other in claims:
                    is_same_port = (protocol, port) == (other_protocol, other_port)
                    if uid != other_uid and is_same_port and (address == other or "0.0.0.0" in (address, other)):
                        found.add((name, "host-ports"))
        return found


Overfilling.TestCase.settings = settings(max_examples=example_count(60), stateful_step_count=40, deadline=None)
TestOverfilling = Overfilling.TestCase
