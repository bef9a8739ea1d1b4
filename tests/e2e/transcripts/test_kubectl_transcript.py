"""An administrator's session with kubectl reads the same on both API servers.

The transcript in `transcript.txt` was recorded on the real one (`--record-transcript`); either server must print it
again, to the letter. Differences are therefore always of one of them, and a diff shows them.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import clean, create_namespace
from tests.e2e.scenario import Scenario
from tests.e2e.servers import Server
from tests.e2e.transcripts.transcript import Transcript

RECORDED = Path(__file__).with_name("transcript.txt")
NAMESPACE = "shop"

pytestmark = pytest.mark.kubernetes_1_36("its session was recorded with the kubectl and API server of 1.36")

WEB = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web, tier: front}
spec:
  schedulerName: kscheduler
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  nodeSelector: {disk: ssd}
  containers:
  - name: main
    image: registry.example/web:1
    ports: [{containerPort: 8080}]
    resources:
      requests: {cpu: "1", memory: 256Mi}
      limits: {cpu: "2", memory: 256Mi}
"""
BATCH = """\
apiVersion: v1
kind: Pod
metadata:
  name: batch
  labels: {app: batch}
spec:
  schedulerName: kscheduler
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  tolerations: [{key: dedicated, operator: Equal, value: batch, effect: NoSchedule}]
  nodeSelector: {dedicated: batch}
  containers:
  - name: main
    image: registry.example/batch:1
    resources: {requests: {cpu: "1", memory: 1Gi}}
"""
HUGE = """\
apiVersion: v1
kind: Pod
metadata:
  name: huge
spec:
  schedulerName: kscheduler
  automountServiceAccountToken: false
  containers:
  - name: main
    image: registry.example/huge:1
    resources: {requests: {cpu: "64"}}
"""
WRONG = """\
apiVersion: v1
kind: Pod
metadata: {name: Wrong_Name}
spec:
  containers:
  - {name: main, image: "registry.example/web:1", resources: {requests: {cpu: much}}}
"""


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    create_namespace(server, NAMESPACE)
    yield NAMESPACE
    clean(server, NAMESPACE)


def test_a_kubectl_session_reads_as_recorded(
    scenario: Scenario, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    transcript = Transcript(scenario.server.kubectl, scenario.server.admin_kubeconfig, NAMESPACE, tmp_path)
    for name, content in {"web.yaml": WEB, "batch.yaml": BATCH, "huge.yaml": HUGE, "wrong.yaml": WRONG}.items():
        transcript.write(name, content)
    scenario.add_node("node-a", cpu="4", memory="8Gi")
    scenario.add_node("node-b", cpu="8", memory="16Gi")
    scenario.start_scheduler()
    for act in (nodes_act, pods_act, rejection_act, selection_act, mistakes_act, drain_act, end_act):
        act(transcript, scenario)
    compare(transcript.text, record=request.config.getoption("--record-transcript"))


def compare(text: str, *, record: bool, recorded: Path = RECORDED) -> None:
    if record:
        recorded.write_text(text)
    expected = recorded.read_text()
    difference = list(
        difflib.unified_diff(expected.splitlines(), text.splitlines(), "recorded", "now", lineterm="", n=2)
    )
    assert not difference, "\n" + "\n".join(difference)


def nodes_act(transcript: Transcript, _: Scenario) -> None:
    transcript.title("Nodes: labels, annotations, taints")
    transcript.run("get nodes")
    transcript.run("label node node-a disk=ssd")
    transcript.run("label node node-a disk=hdd")
    transcript.run("label node node-a disk=ssd --overwrite")
    transcript.run("label node node-b disk=hdd dedicated=batch")
    transcript.run("annotate node node-b team=batch")
    transcript.run("taint node node-b dedicated=batch:NoSchedule")
    transcript.run("taint node node-b dedicated=batch:NoSchedule")
    transcript.run("get nodes -L disk,dedicated")
    transcript.run("get nodes -o name")
    transcript.run("get node node-b -o jsonpath='{.spec.taints}{\"\\n\"}'")
    transcript.run(
        "get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.allocatable.cpu,TAINTS:.spec.taints[*].key"
    )


def pods_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("Pods: created, applied, bound, running")
    transcript.run("create -f web.yaml --dry-run=server")
    transcript.run("apply -f web.yaml")
    transcript.run("apply -f batch.yaml")
    transcript.run("wait --for=condition=PodScheduled pod/web --timeout=30s")
    transcript.run("wait --for=condition=Ready pod/web pod/batch --timeout=30s")
    transcript.run("get pods")
    transcript.run("get pods -o wide")
    transcript.run("apply -f web.yaml")
    transcript.run("diff -f web.yaml")
    scenario.wait("the Event", lambda: scenario.events("web", "Scheduled"))
    transcript.run("describe pod web")
    transcript.run("get events --field-selector involvedObject.name=web")
    transcript.run("describe node node-a")


def rejection_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("A pod that fits nowhere says why")
    transcript.run("create -f huge.yaml")
    scenario.wait_rejected("huge", "0/2 nodes are available")
    scenario.wait("the Event", lambda: scenario.events("huge", "FailedScheduling"))
    transcript.run("get pods huge")
    transcript.run("describe pod huge")
    transcript.run("delete pod huge --wait=true")
    transcript.run("wait --for=delete pod/huge --timeout=30s")


def selection_act(transcript: Transcript, _: Scenario) -> None:
    transcript.title("Selectors, sorting, output")
    transcript.run("get pods -l app=web")
    transcript.run("get pods -l 'app in (web,batch),tier!=front' --show-labels")
    transcript.run("get pods --field-selector spec.nodeName=node-b -o name")
    transcript.run("get pods --field-selector status.phase=Pending")
    transcript.run("get pods --sort-by=.metadata.name --no-headers")
    transcript.run("get pods -A --field-selector metadata.namespace=shop")
    transcript.run("get pod web -o jsonpath='{.spec.nodeName} {.status.phase} {.status.qosClass}{\"\\n\"}'")
    transcript.run("get pods -o go-template='{{range .items}}{{.metadata.name}}{{\"\\n\"}}{{end}}'")
    transcript.run("get pods,nodes -o name")
    transcript.run("get namespace shop")
    transcript.run("label pod web tier=back --overwrite")
    transcript.run('patch pod web --type=merge -p \'{"metadata":{"annotations":{"note":"seen"}}}\'')
    transcript.run('patch pod web --type=json -p \'[{"op":"remove","path":"/metadata/annotations/note"}]\'')
    transcript.run("get pods --show-labels")


def mistakes_act(transcript: Transcript, _: Scenario) -> None:
    transcript.title("Mistakes")
    transcript.run("get pod nobody")
    transcript.run("create -f web.yaml")
    transcript.run("create -f wrong.yaml")
    transcript.run("delete pod nobody")
    transcript.run('patch pod web --type=merge -p \'{"spec":{"nodeName":"node-b"}}\'')
    transcript.run("label node nobody a=b")
    transcript.run("get things")
    transcript.run("create namespace shop")


def drain_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("Cordon, drain, uncordon")
    transcript.run("cordon node-a")
    transcript.run("cordon node-a")
    transcript.run("get nodes")
    transcript.run("drain node-a --timeout=30s")
    transcript.run("drain node-a --force --timeout=30s")
    transcript.run("get pods")
    transcript.run("apply -f web.yaml")
    scenario.wait_rejected("web", "0/2 nodes are available")
    scenario.wait("the Event", lambda: scenario.events("web", "FailedScheduling"))
    transcript.run("get pods -o wide")
    transcript.run("uncordon node-a")
    transcript.run("wait --for=condition=Ready pod/web --timeout=30s")
    transcript.run("get pods -o wide")
    transcript.run("taint node node-b dedicated-")


def end_act(transcript: Transcript, _: Scenario) -> None:
    transcript.title("Deletion")
    transcript.run("delete pod web --now")
    transcript.run("delete -f batch.yaml")
    transcript.run("get pods")
    transcript.run("delete node node-a node-b")
    transcript.run("get nodes")
