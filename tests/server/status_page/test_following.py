"""Snapshots are shared, taken only for who looks, and paced by their cost; a stream tells what has changed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kscheduler.server.status_page import live_view
from kscheduler.server.status_page.live_view import LONGEST_PAUSE_SECONDS, MAX_STREAMS, SHORTEST_PAUSE_SECONDS
from tests.builders import make_node
from tests.server.status_page.page_scene import PageScene, page_scene


@pytest.fixture
async def scene() -> AsyncIterator[PageScene]:
    """Ten nodes, and the page's own tasks."""
    scene = page_scene()
    for number in range(10):
        scene.add_node(f"n{number}", zone="ab"[number % 2])
    tasks = [asyncio.create_task(service.run()) for service in scene.page.services()]
    try:
        yield scene
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def reported(event: bytes) -> dict[str, Any]:
    """What a message says."""
    assert event.startswith(b"event: snapshot\n")
    assert event.endswith(b"\n\n")
    head, data = event[:-2].split(b"\ndata: ")
    assert b"\n" not in data
    assert head.count(b"\n") == 1
    found: dict[str, Any] = msgspec.json.decode(data)
    return found


async def next_snapshot(scene: PageScene) -> None:
    """Until the pause is over, and one more snapshot was taken."""
    taken = scene.page.view._taken
    await scene.clock.run_to_next()
    await taken.wait()


async def first_of(stream: AsyncIterator[bytes]) -> dict[str, Any]:
    assert (await anext(stream)).startswith(b"retry: ")
    return reported(await anext(stream))


async def test_nothing_is_read_while_nobody_looks(scene: PageScene) -> None:
    for _ in range(3):
        await scene.clock.advance(LONGEST_PAUSE_SECONDS)
    assert scene.page.view._snapshot is None


async def test_many_views_within_a_second_are_one_snapshot(scene: PageScene) -> None:
    view = scene.page.view
    snapshots = await asyncio.gather(*(view.fresh() for _ in range(10)))
    assert len({id(snapshot) for snapshot in snapshots}) == 1
    await scene.clock.advance(LONGEST_PAUSE_SECONDS + 1)
    assert await view.fresh() is not snapshots[0]


async def test_a_stream_begins_with_everything_and_goes_on_with_what_differs(scene: PageScene) -> None:
    stream = scene.page.view.follow("cpu", "")
    message = await first_of(stream)
    assert message["letters"] == "0" * 10
    assert set(message["sections"]) == {
        "standing", "figures", "queues", "pending", "decisions", "preemptions", "plugins"
    }  # fmt: skip
    scene.add_pod("p", node="n3", requests={"cpu": "4"})
    await next_snapshot(scene)
    message = reported(await anext(stream))
    assert "letters" not in message
    assert message["changes"] == [[6, "a"]]
    assert set(message["sections"]) == {"figures"}
    await stream.aclose()


async def test_a_stream_goes_on_when_no_node_has_its_resource_any_more(scene: PageScene) -> None:
    scene.add_node("n10", zone="c", **{"nvidia.com/gpu": "4"})
    stream = scene.page.view.follow("nvidia.com/gpu", "")
    assert (await first_of(stream))["letters"] == "n" * 10 + "0"
    labels = {"topology.kubernetes.io/zone": "c"}
    scene.assembly.cache.update_node(make_node("n10", labels=labels))
    await next_snapshot(scene)
    assert reported(await anext(stream))["changes"] == [[10, "n"]]
    await stream.aclose()


async def test_a_page_is_not_sent_what_it_shows_already(scene: PageScene) -> None:
    view = scene.page.view
    snapshot = await view.fresh()
    stream = view.follow("use", view.id_of(snapshot))
    message = await first_of(stream)
    assert message["sections"] == {}
    assert message["letters"] == snapshot.letters["use"]
    await stream.aclose()


async def test_a_browser_that_comes_from_another_process_is_reported_everything(scene: PageScene) -> None:
    stream = scene.page.view.follow("use", "17b1-3")
    assert "queues" in (await first_of(stream))["sections"]
    await stream.aclose()


async def test_who_follow_in_step_get_the_same_bytes(scene: PageScene) -> None:
    view = scene.page.view
    streams = [view.follow("use", "") for _ in range(3)]
    for stream in streams:
        await first_of(stream)
    scene.add_pod("p", node="n3", requests={"cpu": "4"})
    await next_snapshot(scene)
    first, *others = [await anext(stream) for stream in streams]
    assert all(message is first for message in others)
    for stream in streams:
        await stream.aclose()


async def test_a_stream_that_was_slow_is_reported_all_letters(scene: PageScene) -> None:
    view = scene.page.view
    stream, other = view.follow("cpu", ""), view.follow("cpu", "")
    await first_of(stream)
    await first_of(other)
    for number in (3, 4):
        scene.add_pod(f"p{number}", node=f"n{number}", requests={"cpu": "4"})
        await next_snapshot(scene)
        reported(await anext(other))
    assert sorted(reported(await anext(stream))["letters"]) == sorted("00000000aa")
    await stream.aclose()
    await other.aclose()


async def test_nodes_that_come_change_the_number_of_the_cells(scene: PageScene) -> None:
    stream = scene.page.view.follow("use", "")
    before = (await first_of(stream))["cells"]
    scene.add_node("n99")
    await next_snapshot(scene)
    message = reported(await anext(stream))
    assert message["cells"] != before
    assert len(message["letters"]) == 11
    await stream.aclose()


async def test_only_so_many_follow_and_a_place_is_free_again(scene: PageScene) -> None:
    view = scene.page.view
    streams = [view.follow("use", "") for _ in range(MAX_STREAMS)]
    for stream in streams:
        await anext(stream)
    rooms = [view.has_room]
    await streams[0].aclose()
    rooms.append(view.has_room)
    assert rooms == [False, True]
    for stream in streams:
        await stream.aclose()
    assert view.streams == 0


async def test_streams_end_when_the_server_closes(scene: PageScene) -> None:
    view = scene.page.view
    stream = view.follow("use", "")
    await first_of(stream)
    waiting = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    view.close()
    assert await waiting is None


async def test_the_pause_grows_with_what_a_snapshot_costs(scene: PageScene) -> None:
    view = scene.page.view
    for cost, pause in ((0.0, SHORTEST_PAUSE_SECONDS), (0.01, 2.5), (60.0, LONGEST_PAUSE_SECONDS)):
        view.cost_seconds = cost
        assert view.pause_seconds == pytest.approx(pause)


async def test_a_bug_in_a_view_does_not_end_the_service(scene: PageScene, monkeypatch: pytest.MonkeyPatch) -> None:
    view = scene.page.view

    def fail(_pending: object) -> dict[str, object]:
        raise ZeroDivisionError

    monkeypatch.setattr(view._reader, "sections", fail)
    stream = view.follow("use", "")
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await scene.clock.next_sleep()
    assert not waiting.done()
    monkeypatch.undo()
    await next_snapshot(scene)
    assert "queues" in reported(await waiting)["sections"]
    await stream.aclose()


assert live_view.STREAM_SECONDS < 120, "the server would cut the stream before"
