"""Extenders are sent whole objects, and nodes are not read more often than they change."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kscheduler.client.errors import NetworkError
from kscheduler.client.extenders.whole_objects import (
    LEAST_LISTED,
    MAX_SINGLY,
    NODES_FOR_ONE,
    ObjectReadError,
    WholeObjects,
)
from tests.builders import make_node, make_pod

MANAGED = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]


class Reader:
    """An API server with nodes, in pages of two; keeps what was asked for."""

    def __init__(self, *names: str) -> None:
        self.version = "1"
        self.names = list(names)
        self.pod: dict[str, Any] = {
            "kind": "Pod",
            "metadata": {"name": "p", "uid": "uid-of-p", "managedFields": MANAGED},
        }
        self.queried: list[str] = []
        self.failure: Exception | None = None

    def node(self, name: str) -> dict[str, Any]:
        addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
        metadata = {"name": name, "resourceVersion": self.version, "managedFields": MANAGED}
        return {"metadata": metadata, "status": {"addresses": addresses}}

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        selected = (params or {}).get("fieldSelector", "").removeprefix("metadata.name=")
        self.queried.append(selected or path.rpartition("/")[2])
        if self.failure is not None:
            raise self.failure
        if "/pods/" in path:
            return msgspec.json.encode(self.pod)
        assert params is not None
        if selected:
            return msgspec.json.encode({"items": [self.node(selected)] if selected in self.names else []})
        start = int(params.get("continue", "0"))
        items = [self.node(name) for name in self.names[start : start + 2]]
        more = {"continue": str(start + 2)} if start + 2 < len(self.names) else {}
        return msgspec.json.encode({"kind": "NodeList", "metadata": more, "items": items})


class Watch:
    """What the watch has shown."""

    def __init__(self, *names: str) -> None:
        self.versions = dict.fromkeys(names, "1")

    def node(self, name: str) -> Any:
        version = self.versions.get(name)
        return None if version is None else make_node(name, metadata={"resourceVersion": version})


async def test_a_pod_is_sent_whole_without_managed_fields() -> None:
    reader = Reader()
    reader.pod["spec"] = {"containers": [{"env": [{"name": "A", "value": "é"}]}]}
    sent = msgspec.json.decode(await WholeObjects(reader, lambda _: None).pod(make_pod("p")))
    assert sent == {"kind": "Pod", "metadata": {"name": "p", "uid": "uid-of-p"}, "spec": reader.pod["spec"]}


async def test_another_pod_of_the_same_name_is_not_sent() -> None:
    with pytest.raises(ObjectReadError, match="made again"):
        await WholeObjects(Reader(), lambda _: None).pod(make_pod("p", uid="before"))


async def test_nodes_are_read_once_and_those_that_changed_again() -> None:
    reader, watch = Reader("a", "b"), Watch("a", "b")
    whole = WholeObjects(reader, watch.node)
    first = await whole.nodes(["b", "a"])
    assert [msgspec.json.decode(node)["metadata"] for node in first] == [
        {"name": "b", "resourceVersion": "1"},
        {"name": "a", "resourceVersion": "1"},
    ]
    assert msgspec.json.decode(first[0])["status"]["addresses"][0]["address"] == "10.0.0.1"
    await whole.nodes(["a", "b"])
    assert sorted(reader.queried) == ["a", "b"]
    watch.versions["b"] = reader.version = "2"
    _, changed = await whole.nodes(["a", "b"])
    assert msgspec.json.decode(changed)["metadata"]["resourceVersion"] == "2"
    assert reader.queried[2:] == ["b"]


async def test_many_nodes_are_listed_page_by_page() -> None:
    names = [f"n{number}" for number in range(MAX_SINGLY + 1)]
    reader = Reader(*names)
    whole = WholeObjects(reader, Watch(*names).node)
    assert len(await whole.nodes(names)) == len(names)
    assert set(reader.queried) == {"nodes"}
    queried = len(reader.queried)
    await whole.nodes(names)
    assert len(reader.queried) == queried


@pytest.mark.parametrize(
    ("nodes", "changed", "is_list"),
    [
        (100, LEAST_LISTED, False),
        (100, LEAST_LISTED + 1, True),
        (NODES_FOR_ONE * 100, 100, False),
        (NODES_FOR_ONE * 100, 101, True),
        (NODES_FOR_ONE * MAX_SINGLY * 2, MAX_SINGLY, False),
        (NODES_FOR_ONE * MAX_SINGLY * 2, MAX_SINGLY + 1, True),
    ],
)
async def test_all_nodes_are_listed_again_only_if_a_good_share_has_changed(
    nodes: int, changed: int, is_list: bool
) -> None:
    """A question every few seconds must not list 5,000 whole nodes because of the heartbeats in between."""
    names = [f"n{number}" for number in range(nodes)]
    watch, under_way, most = Watch(*names), 0, 0

    class Counting(Reader):
        async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            return await super().get(path, params)

    reader = Counting(*names)
    whole = WholeObjects(reader, watch.node)
    await whole.nodes(names)
    reader.queried.clear()
    for name in names[:changed]:
        watch.versions[name] = reader.version = "2"
    found = await whole.nodes(names)
    assert msgspec.json.decode(found[0])["metadata"]["resourceVersion"] == "2"
    assert ("nodes" in reader.queried) is is_list
    assert is_list or sorted(reader.queried) == sorted(names[:changed])
    assert most <= 16, "binds must find a connection"


async def test_a_failure_ends_the_other_reads() -> None:
    reader, watch = Reader("a", "b"), Watch("a", "b")
    reader.failure = NetworkError("GET: connection refused")
    whole = WholeObjects(reader, watch.node)
    before = len(asyncio.all_tasks())
    with pytest.raises(ObjectReadError, match="refused"):
        await whole.nodes(["a", "b"])
    assert len(asyncio.all_tasks()) == before, "nobody reads on behind the one who asked"


@pytest.mark.parametrize("count", [1, MAX_SINGLY + 1], ids=["one", "list"])
async def test_a_node_that_changes_while_it_is_read_is_read_again(count: int) -> None:
    """What the answer holds is of the time before; kept under the newer version it would be sent forever."""
    names = [f"n{number}" for number in range(count)]
    watch = Watch(*names)

    class ChangesMeanwhile(Reader):
        async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
            body = await super().get(path, params)
            watch.versions["n0"] = self.version = "2"
            return body

    reader = ChangesMeanwhile(*names)
    whole = WholeObjects(reader, watch.node)
    before = [msgspec.json.decode(node)["metadata"]["resourceVersion"] for node in await whole.nodes(names)]
    assert before[0] == "1"
    after = msgspec.json.decode((await whole.nodes(names))[0])
    assert after["metadata"]["resourceVersion"] == "2"


async def test_a_node_that_went_before_the_watch_has_shown_it_is_left_out() -> None:
    whole = WholeObjects(Reader("a"), Watch("a", "b").node)
    assert len(await whole.nodes(["a", "b"])) == 1


async def test_nodes_that_are_gone_are_left_out_and_forgotten() -> None:
    names = [f"n{number}" for number in range(2 * MAX_SINGLY)]
    watch = Watch(*names)
    whole = WholeObjects(Reader(*names), watch.node)
    await whole.nodes(names)
    for name in names[1:]:
        del watch.versions[name]
    assert len(await whole.nodes(names)) == 1
    await whole.nodes(names[:1])
    assert len(whole) == 1


@pytest.mark.parametrize("what", ["pod", "node", "nodes"])
async def test_an_api_server_that_does_not_answer_is_reported(what: str) -> None:
    names = ["a"] if what == "node" else [f"n{number}" for number in range(MAX_SINGLY + 1)]
    reader = Reader(*names)
    reader.failure = NetworkError("GET: connection refused")
    whole = WholeObjects(reader, Watch(*names).node)
    with pytest.raises(ObjectReadError, match="refused"):
        await (whole.pod(make_pod("p")) if what == "pod" else whole.nodes(names))
