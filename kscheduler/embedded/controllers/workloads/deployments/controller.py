"""Deployments: a ReplicaSet per template, and rollouts from one to the next.

paused, or scaled since the last plan    sizes follow, no rollout
RollingUpdate                            the new set grows as far as allowed, then the old ones shrink as far as allowed
Recreate                                 the old sets shrink to zero, then the new one is created
complete                                 ReplicaSets beyond revisionHistoryLimit are deleted
"""

from collections.abc import Iterator, Mapping
from functools import partial

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import DEPLOYMENTS, PODS, REPLICA_SETS, ServedResource
from kscheduler.embedded.controllers import reading
from kscheduler.embedded.controllers.engine.plan import Concerned, Create, Delete, News, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import created, find, is_finished, is_terminating
from kscheduler.embedded.controllers.workloads.deployments import revisions
from kscheduler.embedded.controllers.workloads.deployments import rollout as rolling
from kscheduler.embedded.controllers.workloads.deployments import status as statuses
from kscheduler.embedded.controllers.workloads.deployments.revisions import replicas_of
from kscheduler.embedded.controllers.workloads.deployments.status import Rollout
from kscheduler.embedded.objects.store import Change, ChangeType, Key

_COMPONENT = "deployment-controller"


class DeploymentController:
    """Rolls out Deployments."""

    name = "deployment-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Deployments, their ReplicaSets, and deleted pods: Recreate waits for the last old pod."""
        return {
            DEPLOYMENTS: reading.itself,
            REPLICA_SETS: partial(reading.concerned_owner, DEPLOYMENTS),
            PODS: self._recreated,
        }

    def _recreated(self, view: View, change: Change) -> Iterator[Key]:
        is_over = change.type is ChangeType.DELETED or is_finished(change.record.value)
        if not is_over or not view.has_any(DEPLOYMENTS):
            return
        above = reading.owner_key(change.record.value, REPLICA_SETS)
        replica_set = view.get(REPLICA_SETS, above) if above is not None else None
        key = reading.owner_key(replica_set, DEPLOYMENTS) if replica_set is not None else None
        deployment = view.get(DEPLOYMENTS, key) if key is not None else None
        if key is not None and deployment is not None and not rolling.is_rolling(deployment):
            yield key

    def reconcile(self, view: View, key: Key) -> Plan:
        """Plan a step of the rollout."""
        plan = Plan()
        deployment = view.get(DEPLOYMENTS, key)
        if deployment is not None:
            claimed = reading.claim(view, deployment, REPLICA_SETS)
            plan.add(*claimed.updates)
            _DeploymentStep(view, deployment, claimed.values, plan).take()
        return plan


class _DeploymentStep:
    """A step of a Deployment's rollout."""

    def __init__(self, view: View, deployment: Object, replica_sets: list[Object], plan: Plan) -> None:
        self._view = view
        self._deployment = deployment
        self._all = replica_sets
        self._plan = plan
        self._conditions = statuses.conditions_of(deployment)
        new = revisions.find_new(deployment, replica_sets)
        self._rollout = Rollout(new, [replica_set for replica_set in replica_sets if replica_set is not new])

    def take(self) -> None:
        """Plan the writes that are allowed now, and the status."""
        if is_terminating(self._deployment):
            self._write(statuses.counted(self._deployment, self._rollout, self._conditions, self._view.now))
            return
        paused = bool(self._deployment["spec"].get("paused"))
        self._note_pause(paused=paused)
        if paused or self._was_scaled():
            self._number(make=False)
            self._scale()
            if paused and not self._active_old():
                self._clean_up()
            self._write(statuses.counted(self._deployment, self._rollout, self._conditions, self._view.now))
        elif rolling.is_rolling(self._deployment):
            self._roll()
        else:
            self._recreate()

    # --- strategies ---------------------------------------------------------------------------------------------------

    def _roll(self) -> None:
        self._number(make=True)
        new = self._rollout.new
        if new is not None:
            replicas = rolling.new_replicas(self._deployment, self._rollout.all, new)
            if replicas_of(new) > rolling.wanted(self._deployment):
                replicas = rolling.wanted(self._deployment)
            if not self._resize(new, replicas):
                for scale in rolling.shrunk_old(self._deployment, self._rollout.old, new):
                    self._resize(scale.replica_set, scale.replicas)
        self._finish()

    def _recreate(self) -> None:
        self._number(make=False)
        shrunk = [replica_set for replica_set in self._active_old() if self._resize(replica_set, 0)]
        if not shrunk and not self._old_pods_run():
            self._number(make=True)
            if self._rollout.new is not None:
                self._resize(self._rollout.new, rolling.wanted(self._deployment))
        self._finish()

    def _finish(self) -> None:
        status = statuses.with_progress(self._deployment, self._rollout, self._conditions, self._view.now)
        if statuses.is_complete(self._deployment, status):
            self._clean_up()
        left = statuses.seconds_left(self._deployment, status["conditions"], self._view.now)
        if left:
            self._plan.look_again(left + 1)
        self._write(status)

    def _scale(self) -> None:
        """Follow a new `replicas`: a single set takes all of it; during a rollout each set gets its share."""
        active = [replica_set for replica_set in self._rollout.all if replicas_of(replica_set) > 0]
        newest = self._rollout.new or max(self._rollout.old, key=created, default=None)
        single = active[0] if len(active) == 1 else newest if not active else None
        wanted = rolling.wanted(self._deployment)
        if single is not None:
            self._resize(single, wanted)
        elif self._is_saturated():
            for replica_set in self._active_old():
                self._resize(replica_set, 0)
        elif rolling.is_rolling(self._deployment):
            for scale in rolling.proportional(self._deployment, active):
                self._resize(scale.replica_set, scale.replicas)

    def _is_saturated(self) -> bool:
        new, wanted = self._rollout.new, rolling.wanted(self._deployment)
        if new is None:
            return False
        noted = revisions.annotations_of(new).get(revisions.DESIRED)
        return replicas_of(new) == wanted == rolling.present([new], "availableReplicas") and noted == str(wanted)

    # --- parts of the strategies --------------------------------------------------------------------------------------

    def _was_scaled(self) -> bool:
        """Whether `replicas` has changed since the active sets were sized."""
        wanted = str(rolling.wanted(self._deployment))
        active = [replica_set for replica_set in self._all if replicas_of(replica_set) > 0]
        return any(
            revisions.annotations_of(replica_set).get(revisions.DESIRED, wanted) != wanted for replica_set in active
        )

    def _active_old(self) -> list[Object]:
        return [replica_set for replica_set in self._rollout.old if replicas_of(replica_set) > 0]

    def _old_pods_run(self) -> bool:
        pods = (pod for replica_set in self._rollout.old for pod in self._view.controlled(PODS, replica_set))
        return any(not is_finished(pod) for pod in pods)

    def _most(self) -> int:
        return rolling.wanted(self._deployment) + rolling.fence_posts(self._deployment)[0]

    def _number(self, *, make: bool) -> None:
        """Give the current template a ReplicaSet and the newest revision."""
        newest = max((revisions.revision_of(replica_set) for replica_set in self._rollout.old), default=0) + 1
        new = self._rollout.new
        if new is not None:
            renewed = revisions.renewed(self._deployment, new, newest)
            if renewed != new:
                self._plan.add(Update(REPLICA_SETS, renewed))
                self._rollout = Rollout(renewed, self._rollout.old)
            self._note_revision(revisions.annotations_of(renewed).get(revisions.REVISION, str(newest)))
            if statuses.has_deadline(self._deployment) and find(self._conditions, "Progressing") is None:
                text = f'Found new replica set "{new["metadata"]["name"]}"'
                self._progress("True", "FoundNewReplicaSet", text)
        elif make:
            self._make(newest)

    def _make(self, revision: int) -> None:
        replicas = rolling.new_replicas(self._deployment, self._rollout.old, None)
        made = revisions.new_replica_set(self._deployment, replicas, revision, self._most())
        name = made["metadata"]["name"]
        taken = self._view.get(REPLICA_SETS, reading.key_of(made))
        if taken is not None:
            self._collide()
            return
        done = News(
            self._deployment, _COMPONENT, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {replicas}"
        )
        text = f'Failed to create new replica set "{name}": {{error}}'
        failed = News(self._deployment, _COMPONENT, "ReplicaSetCreateError", text, is_warning=True)
        self._plan.add(Create(REPLICA_SETS, made, done if replicas else None, failed))
        self._note_revision(str(revision))
        if statuses.has_deadline(self._deployment):
            self._progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')

    def _collide(self) -> None:
        """Another template has the same hash: the next plan uses another hash."""
        status = dict(self._deployment.get("status") or {})
        status["collisionCount"] = int(status.get("collisionCount", 0)) + 1
        self._deployment = {**self._deployment, "status": status}
        self._plan.look_again(0)

    def _resize(self, replica_set: Object, replicas: int) -> bool:
        """Plan a size; whether it differs from the current one."""
        changed = revisions.resized(self._deployment, replica_set, replicas, self._most())
        if changed == replica_set:
            return False
        self._plan.add(Update(REPLICA_SETS, changed))
        before, name = replicas_of(replica_set), replica_set["metadata"]["name"]
        if self._rollout.new is replica_set:
            self._rollout = Rollout(changed, self._rollout.old)
        else:
            old = [changed if known is replica_set else known for known in self._rollout.old]
            self._rollout = Rollout(self._rollout.new, old)
        if replicas == before:
            return False
        way = "up" if replicas > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {replicas}"
        self._plan.add(News(self._deployment, _COMPONENT, "ScalingReplicaSet", text))
        return True

    def _clean_up(self) -> None:
        limit = self._deployment["spec"].get("revisionHistoryLimit")
        if limit is None:
            return
        idle = [replica_set for replica_set in self._rollout.old if self._is_idle(replica_set)]
        idle.sort(key=lambda replica_set: (revisions.revision_of(replica_set), created(replica_set)))
        surplus = len([replica_set for replica_set in self._rollout.old if not is_terminating(replica_set)]) - int(
            limit
        )
        self._plan.add(*(Delete(REPLICA_SETS, replica_set) for replica_set in idle[: max(surplus, 0)]))

    def _is_idle(self, replica_set: Object) -> bool:
        is_empty = replicas_of(replica_set) == 0 and rolling.present([replica_set]) == 0
        is_seen = (replica_set.get("status") or {}).get("observedGeneration", 0) >= replica_set["metadata"][
            "generation"
        ]
        return is_empty and is_seen and not is_terminating(replica_set)

    # --- status -------------------------------------------------------------------------------------------------------

    def _note_pause(self, *, paused: bool) -> None:
        """A paused Deployment is neither progressing nor stuck."""
        known = find(self._conditions, "Progressing")
        if not statuses.has_deadline(self._deployment) or (
            known is not None and known.get("reason") == statuses.TIMED_OUT_REASON
        ):
            return
        was_paused = known is not None and known.get("reason") == "DeploymentPaused"
        if paused and not was_paused:
            self._progress("Unknown", "DeploymentPaused", "Deployment is paused")
        elif was_paused and not paused:
            self._progress("Unknown", "DeploymentResumed", "Deployment is resumed")

    def _note_revision(self, revision: str) -> None:
        annotations = revisions.annotations_of(self._deployment)
        if annotations.get(revisions.REVISION) != revision:
            noted = {**annotations, revisions.REVISION: revision}
            metadata = {**self._deployment["metadata"], "annotations": noted}
            self._deployment = {**self._deployment, "metadata": metadata}
            self._plan.add(Update(DEPLOYMENTS, self._deployment))

    def _progress(self, status: str, reason: str, message: str) -> None:
        self._conditions = statuses.progressing(self._conditions, status, reason, message, self._view.now)

    def _write(self, status: Object) -> None:
        stored = self._view.get(DEPLOYMENTS, reading.key_of(self._deployment)) or self._deployment
        self._plan.set_status(DEPLOYMENTS, stored, status)
