"""The auditor of preemption storms accepts what is right and finds each thing that can be wrong."""

from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest

from tests.e2e.storm.audit import Place, Storm, audit
from tests.e2e.storm.history import Sight, Subject

HIGH = 100


@dataclass
class Film:
    """A history made by hand: nodes of four CPUs with a pod per CPU, `a0` to `a3` on node `a`."""

    guarded: str = ""
    """Names of pods."""
    nodes: str = "ab"
    sights: list[Sight] = field(default_factory=list)
    takers: dict[str, str] = field(default_factory=dict)
    deaths: list[float] = field(default_factory=list)
    paused: float = 0.0

    def __post_init__(self) -> None:
        for node in self.nodes:
            for number in range(4):
                name = f"{node}{number}"
                guarded = name in self.guarded.split()
                self.see(Subject(name, name, 0, cpu(1), guarded=guarded), node=node)

    def see(self, subject: Subject, **fields: object) -> None:
        self.sights.append(Sight(subject, at=self.now(), **fields))  # type: ignore[arg-type]

    def now(self) -> float:
        """An event every hundredth of a second, and the pauses."""
        return self.paused + len(self.sights) / 100

    def pauses(self, seconds: float) -> None:
        self.paused += seconds

    def dies(self) -> None:
        self.deaths.append(self.now())

    def comes(self, name: str, cpus: int, on: str = "") -> None:
        selector = {"name": on} if on else {}
        self.see(Subject(name, name, HIGH, cpu(cpus), selector=selector))

    def changes(self, name: str, **fields: object) -> None:
        before = next(sight for sight in reversed(self.sights) if sight.uid == name)
        self.sights.append(replace(before, at=self.now(), **fields))  # type: ignore[arg-type]

    def takes(self, name: str, *victims: str, event: bool = True) -> None:
        """Condition, deletion, end of each."""
        for victim in victims:
            if event:
                self.takers[victim] = name
            self.changes(victim, is_chosen=True)
            self.changes(victim, is_chosen=True, is_terminating=True)
            self.changes(victim, is_chosen=True, is_terminating=True, is_gone=True)

    def nominated(self, name: str, node: str) -> None:
        self.changes(name, nominated=node)

    def bound(self, name: str, node: str) -> None:
        self.changes(name, node=node)

    def faults(self) -> list[str]:
        places = {node: Place(node, cpu(4), {"name": node}) for node in self.nodes}
        return audit(Storm(places, self.sights, self.takers, HIGH, self.deaths))


def cpu(number: int) -> dict[str, Fraction]:
    return {"cpu": Fraction(number)}


def test_a_storm_without_faults_is_accepted() -> None:
    film = Film(guarded="a0 a1")
    film.comes("p", 2)
    film.takes("p", "a2", "a3")
    film.nominated("p", "a")
    film.bound("p", "a")
    film.comes("q", 1)
    film.takes("q", "b0")
    film.bound("q", "b")
    assert film.faults() == []


def test_two_preemptors_may_share_a_node_in_either_order() -> None:
    film = Film()
    film.comes("p", 2)
    film.comes("q", 1)
    film.takes("q", "a0")
    film.takes("p", "a1", "a2")
    film.bound("p", "a")
    film.bound("q", "a")
    assert film.faults() == []


def test_a_pod_that_was_only_chosen_and_lives_on_is_no_victim() -> None:
    film = Film()
    film.comes("p", 1)
    film.changes("b3", is_chosen=True)
    film.takes("p", "a0")
    film.bound("p", "a")
    assert film.faults() == []


def test_a_victim_whose_event_was_lost_counts_in_the_outcome() -> None:
    film = Film()
    film.comes("p", 2)
    film.takes("p", "a0", event=False)
    film.takes("p", "a1")
    film.bound("p", "a")
    assert film.faults() == []


def test_guarded_pods_may_go_where_nothing_else_is_left_to_choose() -> None:
    film = Film(guarded="a0 a1 a2 a3")
    film.comes("p", 1, on="a")
    film.takes("p", "a0")
    film.bound("p", "a")
    assert film.faults() == []


def test_a_scheduler_that_is_killed_may_leave_the_room_it_made_to_another() -> None:
    film = Film()
    film.comes("p", 1)
    film.comes("q", 1)
    film.takes("p", "a0")
    film.dies()
    film.bound("q", "a")
    film.takes("p", "b0")
    film.bound("p", "b")
    assert film.faults() == []


def test_the_next_scheduler_may_give_the_room_away_and_make_room_once_more_on_the_same_node() -> None:
    film = Film()
    film.comes("p", 1)
    film.comes("q", 1)
    film.takes("p", "a0")
    film.dies()
    film.pauses(10)
    film.bound("q", "a")
    film.takes("p", "a1")
    film.bound("p", "a")
    assert film.faults() == []


def interrupted(*, by_death: bool) -> Film:
    """A preemptor of two CPUs has one victim on a node, and goes elsewhere."""
    film = Film()
    film.comes("p", 2)
    film.comes("q", 1)
    film.takes("p", "a0")
    if by_death:
        film.dies()
    film.bound("q", "a")
    film.takes("p", "b0", "b1")
    film.bound("p", "b")
    return film


def test_a_scheduler_that_is_killed_may_have_meant_more_victims() -> None:
    assert interrupted(by_death=True).faults() == []


def test_one_that_lives_must_take_them_all() -> None:
    expect(interrupted(by_death=False), "p has victims on ['a', 'b']", "on a no order of decisions explains")


def expect(film: Film, *texts: str) -> None:
    found = "\n".join(film.faults())
    assert all(text in found for text in texts), found


def test_a_preemptor_that_is_not_bound_is_reported() -> None:
    film = Film()
    film.comes("p", 1)
    expect(film, "p was never bound")


def test_victims_on_two_nodes_are_reported() -> None:
    film = Film()
    film.comes("p", 1)
    film.takes("p", "a0")
    film.takes("p", "b0")
    film.bound("p", "b")
    expect(film, "p has victims on ['a', 'b']", "a lost ['a0']")


def test_a_victim_too_many_is_reported() -> None:
    film = Film()
    film.comes("p", 1)
    film.takes("p", "a0", "a1")
    film.bound("p", "a")
    expect(film, "on a no order of decisions explains", "a lost ['a0', 'a1'] to ['p']: least is (0, 1)")


def test_a_victim_too_many_is_reported_even_if_its_event_was_lost() -> None:
    film = Film()
    film.comes("p", 1)
    film.takes("p", "a0", "a1", event=False)
    film.bound("p", "a")
    expect(film, "a lost ['a0', 'a1']")


def test_a_guarded_victim_beside_a_free_one_is_reported() -> None:
    film = Film(guarded="a0 a1 b0 b1")
    film.comes("p", 1)
    film.takes("p", "a0")
    film.bound("p", "a")
    expect(film, "on a no order", "p took ['a0'] on a although b", "least is (0, 1)")


def test_a_budget_broken_although_another_node_had_a_choice_is_reported() -> None:
    film = Film(guarded="a0 a1 a2 a3")
    film.comes("p", 1)
    film.takes("p", "a0")
    film.bound("p", "a")
    assert film.faults() == ["p took ['a0'] on a although b needed no guarded pod"]


@pytest.mark.parametrize("kept", [1, 2])
def test_a_victim_that_was_needed_by_nobody_who_came_is_reported(kept: int) -> None:
    film = Film()
    film.comes("p", kept)
    film.takes("p", *(f"a{number}" for number in range(kept)))
    film.bound("p", "a")
    film.changes("b0", is_terminating=True)
    assert film.faults() == ["b lost ['b0'] to []: least is (0, 0)"]
