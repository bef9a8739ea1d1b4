"""The least of a kubelet that a cluster needs: bound pods come to run, a Job's pods end well, deleted pods go away.

One thread plays the kubelets of all nodes of either API server, so that scenarios and transcripts see the same pods on
both. It admits everything: what does not fit is for the audit to find.
"""

import itertools

from tests.controlplane.pod_watch import PodWatch
from tests.controlplane.rest import STRATEGIC_PATCH, Api, ApiStatusError, Object

STARTED_AT = "2026-01-01T00:00:00Z"
HOST_ADDRESS = "192.0.2.1"
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
PASSED_OVER = frozenset({404, 409, 422})


def pod_path(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def running_status(pod: Object, address: str) -> Object:
    """The status that a kubelet reports when all containers have started."""
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": STARTED_AT} for kind in CONDITIONS]
    return {
        "phase": "Running",
        "startTime": STARTED_AT,
        "hostIP": HOST_ADDRESS,
        "hostIPs": [{"ip": HOST_ADDRESS}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "$setElementOrder/conditions": [{"type": kind} for kind in (*CONDITIONS, "PodScheduled")],
        "containerStatuses": [container_status(container) for container in pod["spec"]["containers"]],
    }


def is_of_job(pod: Object) -> bool:
    return any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", []))


def succeeded_status(pod: Object) -> Object:
    """The status when all containers have ended well; a Job's pods do at once."""
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": STARTED_AT, "finishedAt": STARTED_AT}
    over = {"status": "False", "reason": "PodCompleted", "lastTransitionTime": STARTED_AT}
    statuses = [
        {**container_status(one), "ready": False, "started": False, "state": {"terminated": ended}}
        for one in pod["spec"]["containers"]
    ]
    conditions = [{"type": kind, **over} for kind in ("Ready", "ContainersReady")]
    return {"phase": "Succeeded", "conditions": conditions, "containerStatuses": statuses}


def container_status(container: Object) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"{container['image']}@sha256:{'0' * 64}",
        "containerID": f"hollow://{container['name']}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": STARTED_AT}},
    }


class HollowKubelets(PodWatch):
    """Runs the pods of every node while it is entered."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, "hollow-kubelets")
        self._addresses = (f"10.0.{number // 250}.{number % 250 + 1}" for number in itertools.count())

    def seen(self, pod: Object) -> None:
        """Starts a pod that has a node, removes one that is being deleted."""
        if not pod["spec"].get("nodeName"):
            return
        try:
            if pod["metadata"].get("deletionTimestamp"):
                # by UID: this may be the second sight of a pod that is gone, and its name may be another pod's by now
                self.api.delete(pod_path(pod), grace_seconds=0, uid=pod["metadata"]["uid"])
            elif pod.get("status", {}).get("phase", "Pending") == "Pending":
                status = {
                    "metadata": {"uid": pod["metadata"]["uid"]},
                    "status": running_status(pod, next(self._addresses)),
                }
                self.api.patch(f"{pod_path(pod)}/status", status, STRATEGIC_PATCH)
            elif pod.get("status", {}).get("phase") == "Running" and is_of_job(pod):
                status = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": succeeded_status(pod)}
                self.api.patch(f"{pod_path(pod)}/status", status, STRATEGIC_PATCH)
        except ApiStatusError as error:
            if error.code not in PASSED_OVER:
                raise

    def deleted(self, pod: Object) -> None:
        """Nothing is left to do for a pod that is gone."""
