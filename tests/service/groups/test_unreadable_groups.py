"""The service about a pod group that is there and cannot be decoded: the reason, until it can be read."""

import json

from tests.builders import Tree
from tests.service.groups.test_pod_groups import GROUPS, gang_cluster
from tests.service.running import answer, node_of, until

WAITS = f"waits for PodGroup default/train ({GROUPS}), which exists, but cannot be read: "
UNREADABLE: Tree = {
    "metadata": {"name": "train", "namespace": "default", "uid": "u"},
    "spec": {"schedulingPolicy": 3},
}


async def test_it_is_said_to_be_unreadable_where_it_would_be_said_to_be_missing() -> None:
    async with gang_cluster() as cluster:
        cluster.server.store.put(GROUPS, UNREADABLE)
        cluster.add_member("train-0", "train")
        queue = cluster.app.parts.assembly.queue
        await cluster.until(lambda: any(group.why.startswith(WAITS) for group in queue.incomplete_groups()))
        for path in ("/explain?podGroup=default/train", "/explain?pod=default/train-0"):
            _, text = await answer(cluster.app, path)
            assert json.loads(text)["message"].startswith(WAITS)
        cluster.server.store.put(GROUPS, {**UNREADABLE, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})
        await until(cluster.server, lambda: bool(node_of(cluster.server, "train-0")))
        assert cluster.app.parts.missing_groups() == {}


async def test_the_log_tells_again_of_a_group_that_has_become_unreadable() -> None:
    async with gang_cluster() as cluster:
        parts = cluster.app.parts
        cluster.add_member("train-0", "train")
        queue = parts.assembly.queue
        await cluster.until(lambda: any("does not exist" in group.why for group in queue.incomplete_groups()))
        before = parts._groups_version()
        cluster.server.store.put(GROUPS, UNREADABLE)
        await cluster.until(lambda: any(group.why.startswith(WAITS) for group in queue.incomplete_groups()))
        assert parts._groups_version() != before
