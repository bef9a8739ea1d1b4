"""The second transcript: what kubectl does with workloads, budgets, claims and nodes that go. Its acts and its masks.

Beside what the first transcript masks, these are names that a controller makes up: the hash of a template (in the names
of ReplicaSets, revisions and pods) and the five letters at the end of a pod's name. Where the order of such names would
show, columns without it are asked for.
"""

import re

from tests.controlplane.process import wait_until
from tests.e2e.scenario import Scenario
from tests.e2e.transcripts.transcript import Transcript

_MADE_UP = (
    (
        re.compile(r"\b(web|db|agent)-[bcdf-hj-np-tv-xz2456789]{6,10}-[bcdf-hj-np-tv-xz2456789]{5}\b"),
        r"\1-<hash>-<name>",
    ),
    (re.compile(r"\b(web|db|agent)-[bcdf-hj-np-tv-xz2456789]{6,10}\b"), r"\1-<hash>"),
    (re.compile(r"\b(agent|sums|halted|parts-\d|bad)-[bcdf-hj-np-tv-xz2456789]{5}\b"), r"\1-<name>"),
    (re.compile(r"=[bcdf-hj-np-tv-xz2456789]{6,10}\b"), "=<hash>"),
)


def mask_names(text: str) -> str:
    """The text without names that a controller made up."""
    for pattern, replacement in _MADE_UP:
        text = pattern.sub(replacement, text)
    return text


TEMPLATE = """\
  template:
    metadata:
      labels: {app: NAME}
    spec:
      schedulerName: kscheduler
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: registry.example/NAME:1
        resources: {requests: {cpu: 100m, memory: 64Mi}}
"""
HEAD = """\
apiVersion: apps/v1
kind: KIND
metadata:
  name: NAME
spec:
  selector:
    matchLabels: {app: NAME}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: NAME
spec:
SPEC
  template:
    spec:
      schedulerName: kscheduler
      automountServiceAccountToken: false
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: "registry.example/sums:1", resources: {requests: {cpu: 100m}}}
"""
DISK = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: shop-disk}
spec:
  capacity: {storage: 2Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: shop-disks
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /mnt/disk}
"""
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: shop-disks
  resources: {requests: {storage: 1Gi}}
"""


def manifests() -> dict[str, str]:
    """File names and contents."""
    db = HEAD + "  serviceName: db\n  replicas: 2\n" + TEMPLATE
    return {
        "web.yaml": (HEAD + "  replicas: 3\n" + TEMPLATE).replace("KIND", "Deployment").replace("NAME", "web"),
        "db.yaml": db.replace("KIND", "StatefulSet").replace("NAME", "db"),
        "agent.yaml": (HEAD + TEMPLATE).replace("KIND", "DaemonSet").replace("NAME", "agent"),
        "sums.yaml": JOB.replace("NAME", "sums").replace("SPEC", "  completions: 3\n  parallelism: 3"),
        "parts.yaml": JOB.replace("NAME", "parts").replace(
            "SPEC", "  completions: 3\n  parallelism: 3\n  completionMode: Indexed"
        ),
        "halted.yaml": JOB.replace("NAME", "halted").replace("SPEC", "  suspend: true"),
        "disk.yaml": DISK,
        "data.yaml": CLAIM,
    }


def settle(transcript: Transcript, scenario: Scenario, workload: str) -> None:
    """Wait until a rollout is over; what kubectl says meanwhile depends on when it looks."""
    finished = scenario.kubectl("rollout", "status", workload, "--timeout=60s")
    assert (
        "successfully rolled out" in finished
        or "rolling update complete" in finished
        or "roll out complete" in finished
    ), finished
    transcript.run(f"rollout status {workload} --timeout=30s")


def deployment_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("A Deployment: made, scaled, rolled out, back, stopped and on again")
    transcript.run("create deployment idle --image=registry.example/idle:1 --replicas=0")
    transcript.run("rollout status deployment/idle --timeout=30s")
    transcript.run("get deployment idle")
    sets = f"/apis/apps/v1/namespaces/{scenario.namespace}/replicasets"
    wait_until(
        "the status of idle's ReplicaSet",
        lambda: all("replicas" in found.get("status", {}) for found in scenario.server.api.items(sets)),
        30,
    )
    transcript.run("get replicasets -l app=idle -o custom-columns=WANTED:.spec.replicas,IS:.status.replicas")
    transcript.run("delete deployment idle")
    transcript.run("apply -f web.yaml")
    settle(transcript, scenario, "deployment/web")
    transcript.run("get deployments -o wide")
    transcript.run("get replicasets -o wide")
    transcript.run("get pods -l app=web")
    transcript.run("rollout history deployment/web")
    transcript.run("scale deployment web --replicas=5")
    settle(transcript, scenario, "deployment/web")
    transcript.run("scale deployment web --replicas=3 --current-replicas=4")
    transcript.run("scale deployment web --replicas=3")
    settle(transcript, scenario, "deployment/web")
    scenario.wait("three pods", lambda: len(scenario.pods()) == 3)
    transcript.run("set image deployment/web main=registry.example/web:2")
    settle(transcript, scenario, "deployment/web")
    transcript.run("annotate deployment web kubernetes.io/change-cause='second image'")
    scenario.wait("the cause", lambda: "second image" in scenario.kubectl("rollout", "history", "deployment/web"))
    transcript.run("rollout history deployment/web")
    transcript.run("rollout history deployment/web --revision=2")
    transcript.run("rollout undo deployment/web")
    settle(transcript, scenario, "deployment/web")
    transcript.run("rollout history deployment/web")
    transcript.run("rollout undo deployment/web --to-revision=7")
    transcript.run("rollout pause deployment/web")
    transcript.run("rollout pause deployment/web")
    transcript.run("set image deployment/web main=registry.example/web:3")
    transcript.run("get pods -l app=web -o jsonpath='{.items[*].spec.containers[*].image}{\"\\n\"}'")
    transcript.run("rollout resume deployment/web")
    settle(transcript, scenario, "deployment/web")
    transcript.run("get pods -l app=web -o jsonpath='{.items[*].spec.containers[*].image}{\"\\n\"}'")
    transcript.run("rollout restart deployment/web")
    settle(transcript, scenario, "deployment/web")
    transcript.run(
        "get deployment web -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}{\"\\n\"}{end}'"
    )
    transcript.run("get replicasets -o custom-columns=WANTED:.spec.replicas --sort-by=.spec.replicas")
    scenario.wait("three pods", lambda: len(scenario.pods()) == 3)


def budget_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("A budget, and a drain that keeps it")
    transcript.run("create poddisruptionbudget web --selector=app=web --max-unavailable=1")
    scenario.wait("the budget is counted", lambda: "sufficient" in status_of(scenario, "pdb/web").lower())
    transcript.run("get poddisruptionbudgets")
    transcript.run("describe poddisruptionbudget web")
    transcript.run("apply -f agent.yaml")
    settle(transcript, scenario, "daemonset/agent")
    transcript.run("get daemonsets -o wide")
    transcript.run("rollout history daemonset/agent")
    transcript.run("cordon node-a")
    transcript.run("drain node-a --timeout=30s")
    finished = scenario.kubectl("drain", "node-a", "--ignore-daemonsets", "--timeout=50s")
    assert "node/node-a drained" in finished, finished
    settle(transcript, scenario, "deployment/web")
    transcript.run("get pods -l app=web --field-selector spec.nodeName=node-a")
    transcript.run("get nodes")
    transcript.run("uncordon node-a")
    transcript.run("delete poddisruptionbudget web")


def status_of(scenario: Scenario, name: str) -> str:
    """The status of an object as JSON text."""
    return scenario.kubectl("get", name, "-o", "jsonpath={.status}")


def sets_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("DaemonSet and StatefulSet")
    transcript.run("set image daemonset/agent main=registry.example/agent:2")
    settle(transcript, scenario, "daemonset/agent")
    transcript.run("rollout history daemonset/agent")
    transcript.run("rollout undo daemonset/agent")
    settle(transcript, scenario, "daemonset/agent")
    transcript.run("get pods -l app=agent -o jsonpath='{.items[*].spec.containers[*].image}{\"\\n\"}'")
    transcript.run("delete daemonset agent")
    transcript.run("apply -f db.yaml")
    settle(transcript, scenario, "statefulset/db")
    transcript.run("get statefulsets -o wide")
    transcript.run("get pods -l app=db")
    transcript.run("scale statefulset db --replicas=3")
    settle(transcript, scenario, "statefulset/db")
    transcript.run("set image statefulset/db main=registry.example/db:2")
    settle(transcript, scenario, "statefulset/db")
    transcript.run("rollout history statefulset/db")
    transcript.run("rollout undo statefulset/db")
    settle(transcript, scenario, "statefulset/db")
    transcript.run("get pods -l app=db -o jsonpath='{.items[*].spec.containers[*].image}{\"\\n\"}'")
    transcript.run("delete pod db-1 --now")
    scenario.wait("db-1 is back", lambda: "True" in status_of(scenario, "pod/db-1"))
    transcript.run("get pods -l app=db")
    transcript.run("delete statefulset db --cascade=foreground")
    transcript.run("get pods -l app=db")


def jobs_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("Jobs")
    transcript.run("apply -f sums.yaml")
    transcript.run("wait --for=condition=complete job/sums --timeout=50s")
    transcript.run("get jobs")
    transcript.run("get pods -l batch.kubernetes.io/job-name=sums")
    transcript.run("apply -f parts.yaml")
    transcript.run("wait --for=condition=complete job/parts --timeout=50s")
    transcript.run("get job parts -o jsonpath='{.status.succeeded} {.status.completedIndexes}{\"\\n\"}'")
    transcript.run("apply -f halted.yaml")
    scenario.wait("it is suspended", lambda: "Suspended" in status_of(scenario, "job/halted"))
    transcript.run("get job halted")
    transcript.run('patch job halted --type=merge -p \'{"spec":{"suspend":false}}\'')
    transcript.run("wait --for=condition=complete job/halted --timeout=50s")
    transcript.run("delete job sums parts halted")
    transcript.run("create cronjob tidy --image=registry.example/tidy:1 --schedule='0 0 29 2 *'")
    transcript.run("get cronjobs")
    transcript.run("delete cronjob tidy")
    scenario.wait("no pods of Jobs", lambda: not jobs_pods(scenario))


def jobs_pods(scenario: Scenario) -> list[str]:
    return [name for name in scenario.kubectl("get", "pods", "-o", "name").split() if "web" not in name]


def claims_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("A claim and its volume")
    transcript.run("apply -f disk.yaml")
    # A volume controller that sees the claim first says so in an Event (ProvisioningFailed).
    scenario.wait("the volume is seen", lambda: "Available" in status_of(scenario, "pv/shop-disk"))
    transcript.run("apply -f data.yaml")
    scenario.wait("the claim is bound", lambda: "Bound" in status_of(scenario, "pvc/data"))
    scenario.wait("the volume is bound", lambda: "Bound" in status_of(scenario, "pv/shop-disk"))
    transcript.run("get persistentvolumeclaims")
    transcript.run("get persistentvolumes")
    transcript.run("describe persistentvolumeclaim data")
    transcript.run("delete persistentvolumeclaim data")
    scenario.wait("the volume is released", lambda: "Released" in status_of(scenario, "pv/shop-disk"))
    transcript.run("get persistentvolumes")
    transcript.run("delete persistentvolume shop-disk")


def owners_act(transcript: Transcript, scenario: Scenario) -> None:
    transcript.title("Who owns what: a node that goes, deletion in three ways")
    transcript.run("delete node node-b")
    scenario.wait("the pods are elsewhere", lambda: on_nodes(scenario) == {"node-a"}, 120)
    settle(transcript, scenario, "deployment/web")
    transcript.run("get pods -l app=web -o jsonpath='{.items[*].spec.nodeName}{\"\\n\"}'")
    transcript.run("delete deployment web --cascade=orphan")
    transcript.run(
        "get replicasets -o custom-columns=OWNERS:.metadata.ownerReferences,WANTED:.spec.replicas "
        "--sort-by=.spec.replicas"
    )
    transcript.run("apply -f web.yaml")
    settle(transcript, scenario, "deployment/web")
    transcript.run("delete deployment web --cascade=foreground")
    transcript.run("get all")


def on_nodes(scenario: Scenario) -> set[str]:
    running = [pod for pod in scenario.pods() if pod.get("status", {}).get("phase") == "Running"]
    return {pod["spec"].get("nodeName", "") for pod in running} if len(running) == 3 else set()


ACTS = (deployment_act, budget_act, sets_act, jobs_act, claims_act, owners_act)
