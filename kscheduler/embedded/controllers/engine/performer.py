"""Executes plans: every write passes admission, defaults and validation, as a client's request does.

Writes that have become pointless are skipped: the object is gone, or exists already. Any other refusal is recorded as
an Event if the plan has one for it, and raised after the rest of the plan, so that the object is tried again later.
"""

from kscheduler.api.machinery.api_errors import ApiError, Object
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.resources import EVENTS
from kscheduler.api.names import event_name
from kscheduler.bounded import RecentlyUsed
from kscheduler.embedded.controllers.engine.plan import Action, Create, Delete, News, Plan, Update
from kscheduler.embedded.objects.deletion import DeleteOptions
from kscheduler.embedded.objects.registry import NO_OPTIONS, ObjectRegistry
from kscheduler.embedded.objects.store import Key

# How many Events are remembered, so that a repetition increases their count.
_REMEMBERED_EVENTS = 4096
_GONE = 404


class Performer:
    """Writes to a registry."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry
        self._events: RecentlyUsed[tuple[str, ...], Key] = RecentlyUsed(_REMEMBERED_EVENTS)
        self._last_event = 0

    def perform(self, plan: Plan) -> None:
        """Execute the plan. Raises the first refusal after the rest has been executed."""
        refused: ApiError | None = None
        for action in plan.actions:
            try:
                self._do(action)
            except ApiError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def _do(self, action: Action) -> None:
        match action:
            case Create():
                self._create(action)
            case Update():
                self._update(action)
            case Delete():
                self._delete(action)
            case News():
                self._record(action)

    def _create(self, action: Create) -> None:
        namespace = action.value["metadata"].get("namespace", "")
        try:
            record = self._registry.create(action.resource, namespace, action.value)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return
            if action.failed is not None:
                self._record(action.failed, error=error.message)
            raise
        if action.done is not None:
            self._record(action.done, name=record.value["metadata"]["name"])

    def _update(self, action: Update) -> None:
        metadata = action.value["metadata"]
        record = self._registry.store.get(action.resource.collection, metadata.get("namespace", ""), metadata["name"])
        if record is None or record.value["metadata"]["uid"] != metadata["uid"]:
            return
        value = action.value
        if action.subresource:
            # Applied to the current object: an earlier action of the plan may have changed other parts of it.
            value = {**record.value, "status": action.value["status"]}
        self._registry.replace(action.resource, record, value, NO_OPTIONS, action.subresource)

    def _delete(self, action: Delete) -> None:
        metadata = action.value["metadata"]
        options = DeleteOptions(grace_period_seconds=action.grace_seconds, uid=metadata["uid"])
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        try:
            self._registry.deletion.delete(action.resource, namespace, name, options)
        except ApiError as error:
            if error.code == _GONE or error.reason == "Conflict":
                return
            raise
        if action.done is not None:
            self._record(action.done, name=name)

    def _record(self, news: News, **filled: str) -> None:
        """Record an Event, or increase its count. Failures to store it are ignored."""
        message = news.text.format(**filled) if filled else news.text
        identity = (news.about["metadata"]["uid"], news.component, news.reason, message)
        key = self._events.get(identity)
        record = self._registry.store.get(EVENTS.collection, *key) if key is not None else None
        now = timestamp(self._registry.now())
        try:
            if record is not None:
                more = {"count": int(record.value.get("count") or 1) + 1, "lastTimestamp": now}
                self._registry.replace(EVENTS, record, {**record.value, **more}, NO_OPTIONS)
                self._events.use(identity)
                return
            event = self._event(news, message, now)
            stored = self._registry.create(EVENTS, event["metadata"]["namespace"], event)
        except ApiError:
            return
        metadata = stored.value["metadata"]
        self._events[identity] = (metadata["namespace"], metadata["name"])

    def _event(self, news: News, message: str, now: str) -> Object:
        about = news.about
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        # Named as by client-go, so that sorted names are in the order of time.
        moment = int(self._registry.now().timestamp() * 1e9)
        self._last_event = max(moment, self._last_event + 1)
        involved = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if metadata.get("namespace"):
            involved["namespace"] = metadata["namespace"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event_name(metadata["name"], self._last_event), "namespace": namespace},
            "involvedObject": involved,
            "reason": news.reason,
            "message": message[:1024],
            "source": {"component": news.component},
            "reportingComponent": news.component,
            "reportingInstance": "",
            "type": "Warning" if news.is_warning else "Normal",
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
