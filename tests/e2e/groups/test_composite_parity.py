"""Trees of groups on a real API server with the gate CompositePodGroup: what kube-scheduler makes of them, and we.

Compared is as for groups without parents (`test_group_parity`). And a tree is finished by the next scheduler, whichever
of its Bindings was the last (`test_gang_faults`).
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane import binaries, kscheduler_process, kubeconfig
from tests.controlplane.controlplane import Settings
from tests.controlplane.releases import pinned
from tests.controlplane.rest import Object
from tests.e2e.groups.gang_capacity import GangAPI, GangRoom, options
from tests.e2e.groups.test_gang_faults import KillAfter, bindings
from tests.e2e.groups.test_group_parity import PROGRAMS, Play, outcome
from tests.e2e.scenario import SECONDS, Scenario
from tests.e2e.servers import NAME, RealServer, Server
from tests.e2e.write_proxy import WriteProxy

GATES: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
TREES: Final = GangAPI("kubernetes", "scheduling.k8s.io/v1beta1", {}, GATES)
# 1.38 has moved the kind, and writes conditions to its objects.
COMPOSITES: Final = f"scheduling.k8s.io/{'v1beta1' if pinned.chosen().minor >= 38 else 'v1alpha3'}"
READ: Final = ["list", "watch"]
REFERENCE: Final = {"workloadName": "training", "templateName": "part"}

pytestmark = [
    pytest.mark.real,
    pytest.mark.followed_kubernetes("kube-scheduler is of its own release"),
    pytest.mark.usefixtures("only_kscheduler", "priorities"),
]


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """With all gates of groups."""
    if request.param != "real":
        pytest.skip("kube-scheduler is compared on the real API server")
    if pinned.chosen() < pinned.parse("1.37.0"):
        pytest.skip("composite groups came with 1.37")
    versions = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
    options = (f"--feature-gates={GATES}", f"--runtime-config={versions}")
    settings = Settings(apiserver_options=options, controller_options=options[:1])
    with RealServer(binaries.find(), settings) as running:
        running.kscheduler_kubeconfig()
        kinds: list[Object] = [
            {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups", "compositepodgroups"], "verbs": READ},
            {
                "apiGroups": ["scheduling.k8s.io"],
                "resources": ["podgroups/status", "compositepodgroups/status"],
                "verbs": ["patch"],
            },
        ]
        running.plane.grant("kscheduler-trees", tuple(kinds))
        yield running


def composite(gangs: GangRoom, name: str, least: int, **spec: object) -> None:
    path = f"/apis/{COMPOSITES}/namespaces/{gangs.scenario.namespace}/compositepodgroups"
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, "workloadRef": REFERENCE}
    body = {"apiVersion": COMPOSITES, "kind": "CompositePodGroup", "metadata": {"name": name}}
    gangs.scenario.api.create(path, body | {"spec": policy | spec})


def leaf(gangs: GangRoom, name: str, parent: str, members: int, **fields: object) -> None:
    """A gang that needs all of its members; `fields` are those of its pods, too."""
    gangs.add_group(name, members, parentCompositePodGroupName=parent, workloadRef=REFERENCE, **fields)
    for number in range(members):
        gangs.add_member(name, f"{name}-{number}", **fields)  # type: ignore[arg-type]


def fits(gangs: GangRoom) -> None:
    """Two levels of composite groups; all of it fits, and only all of it fills the cluster."""
    composite(gangs, "all", 2)
    composite(gangs, "half", 1, parentCompositePodGroupName="all")
    leaf(gangs, "a", "all", 2)
    leaf(gangs, "b", "half", 2)
    gangs.wait_whole("a")
    gangs.wait_whole("b")


def one_does_not_fit(gangs: GangRoom) -> None:
    composite(gangs, "all", 2)
    leaf(gangs, "a", "all", 2)
    leaf(gangs, "b", "all", 3)
    gangs.wait_reported("b", "cannot be satisfied")
    gangs.wait_reported("a", "")


def incomplete(gangs: GangRoom) -> None:
    """A parent nobody knows; a gang of two gangs of which one is there; and a pod by itself."""
    leaf(gangs, "a", "nobody", 1)
    composite(gangs, "all", 2)
    leaf(gangs, "b", "all", 1)


def holds_capacity(gangs: GangRoom) -> None:
    for number in range(4):
        gangs.scenario.add_pod(f"low-{number}", cpu="2")
    gangs.scenario.wait_bound("low-0", "low-1", "low-2", "low-3")
    composite(gangs, "all", 2, priorityClassName="gangs-high")
    for name in ("a", "b"):
        leaf(gangs, name, "all", 2, priorityClassName="gangs-high")
    for name in ("a", "b"):
        gangs.wait_whole(name)
    gangs.scenario.wait("the lower pods are gone", lambda: not gangs.members("low"))


@pytest.mark.parametrize("play", [fits, one_does_not_fit, incomplete, holds_capacity], ids=lambda play: play.__name__)
def test_the_same_becomes_of_trees(scenario: Scenario, tmp_path: Path, play: Play) -> None:
    found = {}
    for program in PROGRAMS:
        found[program] = outcome(scenario, tmp_path / program, program, play, TREES)
        composites = f"/apis/{COMPOSITES}/namespaces/{scenario.namespace}/compositepodgroups"
        for group in scenario.api.items(composites):
            scenario.api.delete(f"{composites}/{group['metadata']['name']}", missing_ok=True)
        scenario.wait("no composite group is left", lambda path=composites: not scenario.api.items(path))  # type: ignore[misc]
    assert found["kscheduler"] == found["kube-scheduler"]


@pytest.mark.parametrize("written", range(5))
def test_a_tree_is_finished_by_the_next_scheduler_whichever_bind_was_the_last(
    scenario: Scenario, tmp_path: Path, written: int
) -> None:
    """SIGKILL between any two Bindings of two gangs that need each other. Rivals who come meanwhile do not get in."""
    for number in range(2):
        scenario.add_node(f"node-{number}")
    gangs = GangRoom(scenario, TREES, tmp_path)
    composite(gangs, "all", 2)
    for name in ("a", "b"):
        leaf(gangs, name, "all", 2)
    with WriteProxy(scenario.server.identity(NAME), bindings) as proxy:
        KillAfter(scenario, proxy, written)
        config = kubeconfig.write(tmp_path / "proxied.json", server=proxy.url)
        flags = options(TREES, NAME, tmp_path, config)
        first = kscheduler_process.process(config, tmp_path / "behind-proxy", *flags, scheduler_name=NAME)
        first.start()
        scenario.processes.append(first)
        assert first.wait(SECONDS) == -signal.SIGKILL
    bound = {name: scenario.node_of(name) for group in "ab" for name in gangs.bound(group)}
    assert len(bound) == written
    if written:
        scenario.add_pod("a-rival", cpu="2")
    gangs.start()
    for name in ("a", "b"):
        gangs.wait_whole(name)
    assert bound.items() <= {name: scenario.node_of(name) for group in "ab" for name in gangs.bound(group)}.items()
    gangs.audit()
    if written:
        scenario.wait_rejected("a-rival", "0/2 nodes are available: 2 Insufficient cpu.")
    composites = f"/apis/{COMPOSITES}/namespaces/{scenario.namespace}/compositepodgroups"
    scenario.api.delete(f"{composites}/all")
