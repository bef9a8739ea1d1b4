"""Lists and watches over HTTP: versions, history, bookmarks, selectors, pages, forms."""

import asyncio

import aiohttp
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.embedded.cluster_client import Client, node, pod

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def version(client: Client) -> str:
    return str((await client.get("/api/v1/pods"))["metadata"]["resourceVersion"])


async def set_labels(client: Client, name: str, **values: str | None) -> None:
    status, body = await client.patch(f"{PODS}/{name}", {"metadata": {"labels": values}}, MERGE)
    assert status == 200, body


async def test_a_watch_shows_each_change_once_and_in_order(client: Client) -> None:
    start = await version(client)
    async with client.watch("/api/v1/pods", resourceVersion=start) as events:
        await client.post(PODS, pod("a"))
        await set_labels(client, "a", x="1")
        await client.request("DELETE", f"{PODS}/a")
        assert await events.take(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_deleted_event_carries_the_version_of_the_deletion(client: Client) -> None:
    created = await client.post(PODS, pod("a"))
    async with client.watch("/api/v1/pods", resourceVersion=created["metadata"]["resourceVersion"]) as events:
        await client.request("DELETE", f"{PODS}/a")
        event = await events.next()
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    assert event["object"]["metadata"]["labels"] == {"app": "web"}


async def test_a_watch_resumes_from_history(client: Client) -> None:
    start = await version(client)
    for name in ("a", "b"):
        await client.post(PODS, pod(name))
    async with client.watch("/api/v1/pods", resourceVersion=start) as events:
        assert await events.take(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_without_a_version_begins_with_the_present_state(client: Client) -> None:
    await client.post(PODS, pod("a"))
    async with client.watch("/api/v1/pods") as events:
        assert await events.take(1) == [("ADDED", "a")]


async def test_a_selector_turns_changes_into_arrivals_and_departures(client: Client) -> None:
    await client.post(PODS, pod("a"))
    async with client.watch("/api/v1/pods", resourceVersion=await version(client), labelSelector="x=1") as events:
        await set_labels(client, "a", x="1")
        await set_labels(client, "a", y="1")
        await set_labels(client, "a", x="2")
        await set_labels(client, "a", x="1")
        seen = await events.take(4)
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]


async def test_a_field_selector_follows_the_binding_of_a_pod(client: Client) -> None:
    await client.post(PODS, pod("a"))
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    waiting = {"resourceVersion": await version(client), "fieldSelector": "spec.nodeName="}
    async with client.watch("/api/v1/pods", **waiting) as events:
        await client.post(f"{PODS}/a/binding", binding)
        event = await events.next()
    assert (event["type"], event["object"]["spec"].get("nodeName")) == ("DELETED", None)


async def test_an_expired_version_is_reported_as_an_error_event(client: Client, server: EmbeddedAPIServer) -> None:
    start = await version(client)
    await client.post(PODS, pod("a"))
    server.faults.expire_history()
    async with client.watch("/api/v1/pods", resourceVersion=start) as events:
        rest = await events.rest()
    assert [event["type"] for event in rest] == ["ERROR"]
    assert (rest[0]["object"]["code"], rest[0]["object"]["reason"]) == (410, "Expired")
    assert rest[0]["object"]["message"].startswith("too old resource version: ")


async def test_a_watch_from_the_future_is_refused(client: Client) -> None:
    status, body = await client.request("GET", "/api/v1/pods?watch=1&resourceVersion=999999")
    assert (status, body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_a_restarted_server_has_its_objects_and_history(client: Client, server: EmbeddedAPIServer) -> None:
    start = await version(client)
    port = int(server.url.rpartition(":")[2])
    async with client.watch("/api/v1/pods", resourceVersion=start) as events:
        await server.aclose()
        assert await events.rest() == []
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.get("/api/v1/pods")
    await server.start(port=port)
    await client.post(PODS, pod("a"))
    async with client.watch("/api/v1/pods", resourceVersion=start) as events:
        assert await events.take(1) == [("ADDED", "a")]


async def test_a_bounded_history_expires_by_itself() -> None:
    async with EmbeddedAPIServer(history_limit=3) as server:
        pods = server.store.collection("pods")
        for count in range(5):
            server.store.put("pods", {"metadata": {"name": str(count), "namespace": "default"}})
        assert len(pods.history) == 3
        assert [change.key[1] for change in pods.changes_since(pods.oldest_resumable)] == ["2", "3", "4"]


async def test_a_timed_out_watch_ends_with_a_bookmark(client: Client) -> None:
    start = await version(client)
    await client.post("/api/v1/nodes", node())
    query = {"resourceVersion": start, "allowWatchBookmarks": "true", "timeoutSeconds": "0.05"}
    async with client.watch("/api/v1/pods", **query) as events:
        rest = await events.rest()
    assert [event["type"] for event in rest] == ["BOOKMARK"]
    assert int(rest[0]["object"]["metadata"]["resourceVersion"]) == int(start) + 1


async def test_bookmarks_come_in_between_as_well() -> None:
    async with EmbeddedAPIServer(bookmark_seconds=0.01) as server, aiohttp.ClientSession() as session:
        client = Client(session, server.url)
        async with client.watch("/api/v1/pods", allowWatchBookmarks="true") as events:
            assert {(await events.next())["type"] for _ in range(3)} == {"BOOKMARK"}
        async with client.watch("/api/v1/pods", timeoutSeconds="0.05") as events:
            assert await events.rest() == []


async def test_a_watch_list_marks_the_end_of_the_present_state(client: Client) -> None:
    await client.post(PODS, pod("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with client.watch("/api/v1/pods", **query) as events:
        assert await events.take(1) == [("ADDED", "a")]
        mark = await events.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert mark["object"]["metadata"]["resourceVersion"] == await version(client)
        await client.post(PODS, pod("b"))
        assert await events.take(1) == [("ADDED", "b")]


async def test_send_initial_events_needs_its_match(client: Client) -> None:
    status, body = await client.request("GET", "/api/v1/pods?watch=1&sendInitialEvents=true")
    assert (status, body["reason"]) == (422, "Invalid")


async def test_a_watch_as_table_has_one_row_per_event(client: Client) -> None:
    await client.post(PODS, pod("a"))
    async with client.session.get(f"{client.url}/api/v1/pods?watch=1&timeoutSeconds=0.05", headers=TABLE) as response:
        line = await response.content.readline()
    assert b'"kind":"Table"' in line
    assert b'"0/1","Pending"' in line


async def test_pages_belong_to_one_snapshot(client: Client) -> None:
    for name in "abcde":
        await client.post(PODS, pod(name))
    first = await client.get("/api/v1/pods?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    await client.request("DELETE", f"{PODS}/c")
    await client.post(PODS, pod("ca"))
    second = await client.get("/api/v1/pods", params={"limit": "9", "continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in first["items"] + second["items"]] == list("abcde")
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


async def test_a_continue_token_expires_with_the_history(client: Client, server: EmbeddedAPIServer) -> None:
    for name in "abc":
        await client.post(PODS, pod(name))
    token = (await client.get("/api/v1/pods?limit=1"))["metadata"]["continue"]
    await client.post(PODS, pod("d"))
    server.faults.expire_history()
    status, body = await client.request("GET", "/api/v1/pods", params={"limit": "1", "continue": token})
    assert (status, body["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param({"resourceVersion": "999999"}, 504, id="from the future"),
        pytest.param({"resourceVersion": "x"}, 400, id="not a number"),
        pytest.param({"resourceVersionMatch": "Exact"}, 400, id="match without version"),
        pytest.param({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 400, id="exactly any"),
        pytest.param({"continue": "nonsense"}, 400, id="token of nobody"),
        pytest.param({"labelSelector": "a in b"}, 400, id="unreadable labels"),
        pytest.param({"fieldSelector": "spec.image=x"}, 400, id="field without index"),
    ],
)
async def test_impossible_lists_are_refused(client: Client, query: dict[str, str], code: int) -> None:
    status, body = await client.request("GET", "/api/v1/pods", params=query)
    assert (status, body["kind"], body["code"]) == (code, "Status", code)


async def test_an_exact_version_lists_the_past(client: Client) -> None:
    await client.post(PODS, pod("a"))
    past = await version(client)
    await client.request("DELETE", f"{PODS}/a")
    query = {"resourceVersion": past, "resourceVersionMatch": "Exact"}
    listed = await client.get("/api/v1/pods", params=query)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    assert (await client.get("/api/v1/pods", params={"resourceVersion": past}))["items"] == []


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", "ab"),
        ("app!=web", "c"),
        ("app in (web, db)", "abc"),
        ("app notin (web)", "c"),
        ("tier", "a"),
        ("!tier", "bc"),
        ("rank>1,app", "a"),
        ("app==web,!tier", "b"),
        ("", "abc"),
    ],
)
async def test_label_selectors(client: Client, selector: str, names: str) -> None:
    for name, values in {
        "a": {"app": "web", "tier": "x", "rank": "2"},
        "b": {"app": "web", "rank": "1"},
        "c": {"app": "db"},
    }.items():
        await client.post(PODS, {**pod(), "metadata": {"name": name, "labels": values}})
    listed = await client.get("/api/v1/pods", params={"labelSelector": selector})
    assert [item["metadata"]["name"] for item in listed["items"]] == list(names)


async def test_events_are_one_store_with_two_views(client: Client) -> None:
    event = {
        "metadata": {"name": "e1"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Scheduled",
        "note": "Successfully assigned",
        "type": "Normal",
        "action": "Binding",
        "reportingController": "kscheduler",
        "reportingInstance": "kscheduler-0",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    await client.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    core = await client.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=p")
    stored = core["items"][0]
    assert (stored["message"], stored["involvedObject"]["kind"]) == ("Successfully assigned", "Pod")
    assert (stored["apiVersion"], stored["reportingComponent"]) == ("v1", "kscheduler")
    body = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}, "note": "again"}
    await client.patch("/apis/events.k8s.io/v1/namespaces/default/events/e1", body, MERGE)
    assert (await client.get("/api/v1/namespaces/default/events/e1"))["message"] == "again"


async def test_an_event_that_the_real_server_would_refuse_is_refused(client: Client) -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "other"}}
    status, body = await client.request("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    fields = [cause["field"] for cause in body["details"]["causes"]]
    assert status == 422
    assert fields == [
        *("involvedObject.namespace", "eventTime", "reportingController", "reportingInstance", "action", "reason"),
        "type",
    ]


async def test_a_client_that_goes_away_leaves_no_watcher_behind(client: Client, server: EmbeddedAPIServer) -> None:
    async with client.watch("/api/v1/pods") as events:
        assert server.store.statistics().watchers == 1
        events.response.close()
    for _ in range(1000):
        await client.get("/version")
        if not server.store.statistics().watchers:
            break
    assert (server.store.statistics().watchers, server.watches.streams.count) == (0, 0)


async def test_partial_metadata_holds_nothing_else(client: Client) -> None:
    await client.post(PODS, pod("a"))
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    listed = await client.get("/api/v1/pods", headers=accept)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_many_watchers_see_the_same_bytes(client: Client) -> None:
    start = await version(client)

    async def first_line() -> bytes:
        async with client.session.get(f"{client.url}/api/v1/pods?watch=1&resourceVersion={start}") as response:
            opened.release()
            return await response.content.readline()

    opened = asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(first_line()) for _ in range(5)]
        for _ in watchers:
            await opened.acquire()
        await client.post(PODS, pod("a"))
    assert len({watcher.result() for watcher in watchers}) == 1
