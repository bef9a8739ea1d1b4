"""What is said about pods, in which order and how fast: the newest word, news before texts, nothing twice."""

import tracemalloc

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.scheduling.failures.pending_patches import (
    LOOKS,
    NEWS_AT_ONCE,
    TEXTS_AT_ONCE,
    TEXTS_PER_SECOND,
    PendingPatches,
    PodPatch,
)
from tests.builders import make_pod


def saying(message: str, reason: str = "Unschedulable") -> Condition:
    """A condition."""
    return Condition(type="PodScheduled", status="False", reason=reason, message=message)


def showing(name: str, message: str = "", *, reason: str = "Unschedulable", node: str = "", **fields: object) -> Pod:
    """A pod that shows a condition, where there is a message, and a nominated node."""
    shown = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    status = {"conditions": [shown] if message else [], "nominatedNodeName": node}
    return make_pod(name, status=status, **fields)


class World:
    """Pods, and the words about them."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {pod.key: pod for pod in pods}
        self.patches = PendingPatches(self.pods.get, 0.0)
        self.now = 0.0

    def say(self, name: str, condition: Condition | None, node: str | None = None) -> None:
        """A word about a pod."""
        pod = self.pods[f"default/{name}"]
        self.patches.put(PodPatch(pod.key, pod.metadata.uid, condition, node))

    def take(self) -> PodPatch | None:
        """The next one that may go now, however long the search among members is."""
        while (patch := self.patches.take(self.now)) is None and self.patches.delay(self.now) == 0.0:
            pass
        return patch

    def sent(self, patch: PodPatch) -> None:
        """It was answered, and the watch has brought it."""
        pod, condition = self.pods[patch.key], patch.condition
        shown = condition.message if condition is not None else ""
        node = pod.status.nominated_node_name if patch.nominated_node_name is None else patch.nominated_node_name
        self.pods[patch.key] = showing(pod.metadata.name, shown, node=node)
        self.patches.sent(patch)

    def send(self) -> str:
        """Send the next one: `name: message @node`, or empty."""
        patch = self.take()
        if patch is None:
            return ""
        self.sent(patch)
        return word(patch)

    def send_all(self, seconds: float = 0.0) -> list[str]:
        """Send what may go within so many seconds."""
        words, end = [], self.now + seconds
        while True:
            while text := self.send():
                words.append(text)
            delay = self.patches.delay(self.now)
            if delay is None or self.now + delay > end:
                self.now = end
                return words
            self.now += delay


def word(patch: PodPatch) -> str:
    """What a patch says."""
    said = patch.condition.message if patch.condition is not None else "-"
    return f"{patch.key.removeprefix('default/')}: {said} @{patch.nominated_node_name}"


def test_the_newest_word_wins_and_inherits_what_it_is_silent_about() -> None:
    world = World(showing("p"))
    world.say("p", saying("one"), "n1")
    world.say("p", saying("two"))
    assert world.send_all() == ["p: two @n1"]
    world.say("p", saying("three"))
    world.say("p", None, "")
    assert world.send_all() == ["p: three @"]


def test_nothing_is_sent_where_the_pod_says_so_already() -> None:
    world = World(showing("p", "no"))
    world.say("p", saying("other"))
    world.say("p", saying("no"), "")
    assert len(world.patches) == 0, "the word that waited would have been out of date"
    assert world.send_all() == []
    assert world.patches.unchanged == 1


def test_a_word_is_judged_again_when_its_turn_comes() -> None:
    world = World(showing("p"), showing("gone"), showing("bound"), showing("again"))
    for name in ("p", "gone", "bound", "again"):
        world.say(name, saying("no"))
    del world.pods["default/gone"]
    world.pods["default/bound"] = make_pod("bound", node="n")
    world.pods["default/again"] = showing("again", uid="another")
    world.pods["default/p"] = showing("p", "no")
    assert world.send_all() == []
    assert world.patches.delay(0.0) is None


def test_two_patches_of_one_pod_are_never_under_way_together() -> None:
    world = World(showing("p"), showing("q"))
    world.say("p", saying("old"))
    first = world.take()
    assert first is not None
    world.say("p", saying("new"))
    world.say("q", saying("new"))
    assert world.send() == "q: new @None"
    assert world.send() == ""
    world.sent(first)
    assert world.send() == "p: new @None"


def test_what_is_under_way_says_it_already() -> None:
    world = World(showing("p"))
    world.say("p", saying("no"))
    first = world.take()
    assert first is not None
    world.say("p", saying("no"))
    world.sent(first)
    assert world.send() == ""


@pytest.mark.parametrize(
    ("shown", "said", "node", "is_news"),
    [
        (showing("p"), saying("no"), None, True),
        (showing("p", "old"), saying("no"), None, False),
        (showing("p", "old", reason="SchedulerError"), saying("no"), None, True),
        (showing("p", "no"), saying("no"), "n1", True),
        (showing("p", "no", node="n1"), saying("old"), "", True),
        (showing("p", "old", node="n1"), saying("no"), "n1", False),
    ],
    ids=["the first condition", "another text", "another reason", "a nomination", "its end", "text, same nomination"],
)
def test_news_goes_before_texts(shown: Pod, said: Condition, node: str | None, is_news: bool) -> None:
    world = World(showing("other", "old"), shown)
    world.say("other", saying("text"))
    world.say("p", said, node)
    assert world.send().startswith("p:") is is_news


def test_texts_go_at_a_bounded_rate_and_news_does_not_wait_for_them() -> None:
    names = [f"t{number}" for number in range(1000)]
    world = World(*(showing(name, "old") for name in names), showing("n"))
    for name in names:
        world.say(name, saying("new"))
    assert len(world.send_all()) == TEXTS_AT_ONCE
    assert len(world.send_all(10.0)) == pytest.approx(10 * TEXTS_PER_SECOND, abs=1)
    world.say("n", saying("no"))
    assert world.send() == "n: no @None"


def test_after_a_429_fewer_are_sent() -> None:
    names = [f"t{number}" for number in range(1000)]
    world = World(*(showing(name, "old") for name in names))
    for name in names:
        world.say(name, saying("new"))
    world.send_all()
    world.patches.slow_down(world.now)
    assert len(world.send_all(1.0)) < 0.6 * TEXTS_PER_SECOND


def test_a_pod_that_is_to_be_bound_is_spoken_of_no_more() -> None:
    world = World(showing("p"), showing("q"))
    world.say("p", saying("no"))
    world.say("q", saying("no"))
    patch = world.take()
    assert patch is not None
    for uid in ("uid-of-p", "uid-of-q", "uid-of-nobody"):
        world.patches.withdraw(uid)
    world.patches.put_back(patch, not_before=0.0)
    assert world.send_all(3600.0) == []


# --- trying again


def test_what_failed_is_said_again_at_its_time_in_the_newest_words() -> None:
    world = World(showing("p"), showing("q"))
    world.say("p", saying("no"), "n1")
    patch = world.take()
    assert patch is not None
    world.patches.put_back(patch, not_before=5.0)
    world.say("q", saying("no"))
    assert world.send_all(4.0) == ["q: no @None"]
    assert len(world.patches) == 1
    assert world.send_all(2.0) == ["p: no @n1"]


def test_a_newer_word_does_not_wait_for_the_one_that_failed() -> None:
    world = World(showing("p"))
    world.say("p", saying("one"), "n1")
    patch = world.take()
    assert patch is not None
    world.patches.put_back(patch, not_before=5.0)
    world.say("p", saying("two"))
    assert world.send_all() == ["p: two @n1"]
    assert world.send_all(60.0) == []


def test_what_was_said_while_the_request_failed_comes_first() -> None:
    world = World(showing("p"))
    world.say("p", saying("one"), "n1")
    patch = world.take()
    assert patch is not None
    world.say("p", saying("two"))
    world.patches.put_back(patch, not_before=5.0)
    assert world.send_all() == ["p: two @n1"]
    assert world.send_all(60.0) == []


# --- classes


def a_class(*names: str) -> dict[str, None]:
    """The members of a class, by key."""
    return dict.fromkeys(f"default/{name}" for name in names)


def test_every_member_of_a_class_is_reported_that_does_not_show_it() -> None:
    world = World(showing("a"), showing("b", "old"), showing("c", "new"))
    world.patches.put_class("k", a_class("a", "b", "c", "unknown"), saying("new"))
    assert sorted(world.send_all()) == ["a: new @None", "b: new @None"]
    assert world.patches.classes == 0
    assert world.patches.delay(world.now) is None


def test_who_leaves_the_class_is_not_spoken_of() -> None:
    world = World(showing("a", "old"), showing("b", "old"))
    members = a_class("a", "b")
    world.patches.put_class("k", members, saying("new"))
    assert world.send() == "a: new @None"
    del members["default/b"]
    assert world.send_all() == []


def test_a_newer_judgement_replaces_one_that_waits() -> None:
    world = World(showing("a", "old"))
    for number in range(100):
        world.patches.put_class("k", a_class("a"), saying(f"{number}"))
    assert world.patches.classes == 1
    assert world.send_all() == ["a: 99 @None"]


def test_a_newer_judgement_in_the_middle_reaches_all_and_says_the_old_no_more() -> None:
    world = World(showing("a", "old"), showing("b", "old"), showing("c", "old"))
    world.patches.put_class("k", a_class("a", "b", "c"), saying("one"))
    assert world.send() == "a: one @None"
    world.patches.put_class("k", a_class("a", "b", "c"), saying("two"))
    assert sorted(world.send_all()) == ["a: two @None", "b: two @None", "c: two @None"]


def test_a_newer_word_about_one_member_is_not_replaced_by_that_of_its_class() -> None:
    world = World(showing("a"), showing("b"))
    world.patches.put_class("k", a_class("a", "b"), saying("class"))
    world.say("a", saying("own"))
    assert world.send_all() == ["a: own @None", "b: class @None"]


def test_an_older_word_about_one_member_is_replaced_and_its_nomination_kept() -> None:
    world = World(showing("a", "old"), showing("b", "old"))
    world.say("a", saying("own"), "n1")
    patch = world.take()
    assert patch is not None
    world.patches.put_class("k", a_class("a", "b"), saying("class"))
    assert world.send() == "b: class @None"
    world.patches.put_back(patch, not_before=5.0)
    assert world.send_all() == ["a: class @n1"]


def test_single_texts_and_classes_take_turns() -> None:
    names = [f"t{number}" for number in range(2000)]
    world = World(*(showing(name, "old") for name in names), *(showing(f"k{name}", "old") for name in names))
    for name in names:
        world.say(name, saying("new"))
    world.patches.put_class("k", a_class(*(f"k{name}" for name in names)), saying("new"))
    words = world.send_all(10.0)
    of_class = sum(text.startswith("k") for text in words)
    assert of_class == pytest.approx(len(words) / 2, abs=2)


def test_a_search_among_many_members_gives_way_after_a_few() -> None:
    """So that the loop is never held for longer than a moment."""
    names = [f"p{number}" for number in range(5 * LOOKS)]
    world = World(*(showing(name, "new") for name in names))
    world.patches.put_class("k", a_class(*names), saying("new"))
    takes = 0
    while world.patches.delay(0.0) == 0.0:
        assert world.patches.take(0.0) is None
        takes += 1
    assert takes == 6
    assert world.patches.unchanged == 5 * LOOKS


def test_a_hundred_thousand_parked_pods_cost_a_bounded_rate_and_little_memory() -> None:
    """One event changes the text of all of them, again and again; most never had a word of their own."""
    names = [f"p{number}" for number in range(100_000)]
    pods = {f"default/{name}": showing(name, "old") for name in names[:1000]}
    world = World(*pods.values())
    some = list(pods.values())
    world.pods = {f"default/{name}": some[number % 1000] for number, name in enumerate(names)}
    world.patches = PendingPatches(world.pods.get, 0.0)
    members = dict.fromkeys(world.pods)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100_000):
            world.patches.put_class("k", members, saying(f"{number % 7}"))
        waiting = tracemalloc.get_traced_memory()[0] - before
        sent = 0
        for _ in range(600):
            while (patch := world.take()) is not None:
                world.patches.sent(patch)
                sent += 1
            world.now += 0.1
        under_way = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert waiting < 50_000
    assert under_way < 1_500_000, "the keys of one class, eight bytes each"
    assert sent == pytest.approx(TEXTS_AT_ONCE + 60 * TEXTS_PER_SECOND, abs=10)


def test_pods_that_were_never_reported_anything_are_reported_fast() -> None:
    names = [f"p{number}" for number in range(3000)]
    world = World(*(showing(name) for name in names))
    world.patches.put_class("k", a_class(*names), saying("no"))
    assert len(world.send_all()) == NEWS_AT_ONCE
    assert len(world.send_all(4.0)) == 2000


def test_what_has_no_turn_is_set_aside_for_its_namespace_and_a_newer_patch_replaces_it() -> None:
    world = World(*(make_pod(f"p{number}") for number in range(3)))
    for number in range(3):
        world.say(f"p{number}", saying("old"))
    while (patch := world.take()) is not None:
        world.patches.set_aside(patch, "default")
    assert (len(world.patches), world.patches.sending, world.patches.count_aside("default")) == (3, 0, 3)
    world.say("p1", saying("new"))
    world.patches.withdraw(world.pods["default/p2"].metadata.uid)
    first = world.patches.first_aside("default")
    assert first is not None
    assert first.key == "default/p0"
    world.patches.take_aside(first)
    world.sent(first)
    assert world.patches.first_aside("default") is None
    assert world.send().startswith("p1: new")
    assert len(world.patches) == 0


def test_what_was_set_aside_waits_as_the_others_do_once_its_namespace_is_well() -> None:
    world = World(make_pod("p"))
    world.say("p", saying("m"))
    patch = world.take()
    assert patch is not None
    world.patches.set_aside(patch, "default")
    assert world.take() is None
    world.patches.rejoin("default")
    assert world.send().startswith("p: m")


def test_newer_patches_of_pods_whose_patch_is_in_flight_are_not_looked_at_again_and_again() -> None:
    """They wait behind it: with 800 in flight and as many behind, the next other pod is found at once."""
    world = World(*(make_pod(f"p{number}") for number in range(801)))
    for number in range(800):
        world.say(f"p{number}", saying("old"))
    in_flight = [world.take() for _ in range(800)]
    for number in range(801):
        world.say(f"p{number}", saying("new"))
    looked = 0

    class Counted(dict[str, PodPatch]):
        def __contains__(self, key: object) -> bool:
            nonlocal looked
            looked += 1
            return super().__contains__(key)

    world.patches.in_flight = Counted(world.patches.in_flight)
    patch = world.take()
    assert patch is not None
    assert patch.key == "default/p800"
    assert looked <= 2
    assert all(each is not None for each in in_flight)
    first = in_flight[0]
    assert first is not None
    world.sent(first)
    assert world.send().startswith("p0: new")
