"""What a kind of suggestion is: one class, whose instances are what JSON says of it (`facts`).

    proposals   changes that may help, none of them tried yet; of the pod itself as `demands`
    found       those of the proposals that help: as a rule the first of each subject
    text        the change in words
    command     the kubectl line that makes it, where it is not a change of the pod
    note        what to know before running the command

How a change is applied to a scenario are its `ObjectChange`s: patches, which a trial makes in the state cache and a
program in its own JSON. What the search has to know of a kind stands in the class, too: which plugins' verdicts it may
change, what it is paired with, whether kubectl can make it.

`all_kinds.KINDS` lists the kinds in the order in which changes of one size are shown. The search, the pairs, groups and
commands name no kind.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Generic, Self, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.object_changes import ObjectChange, Operation, joined
from kscheduler.explain.suggestions.trials import NOTHING, Trials
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache

# The size of a rule that goes, where nothing is measured.
HALF: Final = 0.5

T = TypeVar("T")
Patch = tuple[Operation, ...]
# The rows that the pod fits on with a patch of one demand, and whatever else is changed.
RowsOf = Callable[[Patch], Rows]


class Harm(IntEnum):
    """What a change takes that may be worth more than the pod's place. All others come before, alone or as pairs."""

    NONE = 0
    OF_OTHERS = 1
    """A pod goes that is more important than this one, or that nobody makes again."""
    OF_THE_POD = 2
    """The pod gives up what it is for: it would run without the device that it asks for."""


class SuggestionKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind of change; an instance has the names and numbers of one such change, as `facts` of JSON has them."""

    kind: ClassVar[str]
    """Its name in JSON."""
    is_of_the_pod: ClassVar[bool] = False
    """Whether the pod, its claims or its group ask for something else; all other kinds are of what the cluster has."""
    is_far: ClassVar[bool] = False
    """Whether a pair of smaller changes is of interest beside it."""
    is_of_group: ClassVar[bool] = False
    """Whether it is a change of the pod's group, and not of members."""
    touched: ClassVar[frozenset[str]] = NOTHING
    """The plugins whose verdict it may change, of those that `Objections` knows."""
    is_paired_with_demands: ClassVar[bool] = False
    """Whether its proposals are tried together with what the pod asks for."""
    is_paired_with_claims: ClassVar[bool] = False
    """Whether its proposals are changes of claims, which are tried two at a time."""
    is_last_pair: ClassVar[bool] = False
    """Whether the first proposal that helps is tried with what the pod asks for, where nothing else was found."""
    by_kubectl: ClassVar[bool] = True
    """Whether kubectl can make the change."""
    is_in_place: ClassVar[bool] = False
    """Whether a pod that exists can be changed so."""
    is_of_pod_alone: ClassVar[bool] = False
    """Whether the pod is changed even if a controller has made it: its template may not have what goes."""

    # Of a group: how many of its waiting members get a node by the change.
    placed: int | UnsetType = UNSET
    waiting: int | UnsetType = UNSET

    # --- what is proposed ---------------------------------------------------------------------------------------------

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator["Step"]:
        """Changes that may help, the best first; they are not tried yet.

        Of kinds whose proposals are made together one class proposes all.
        """
        yield from ()

    @classmethod
    def pairs(cls, trials: Trials) -> Iterator[tuple["Step", "Step"]]:
        """Two changes of one object that may help together; the first pair that does is shown."""
        yield from ()

    @classmethod
    def found(cls, trials: Trials) -> Iterator["Suggestion"]:
        """Changes that help, each tried."""
        yield from first_of_each(cls.proposals(trials), trials)

    @classmethod
    def for_group(cls, group: GroupDefinition, members: int, trials: Sequence[Trials]) -> Iterator["GroupScale[Step]"]:
        """Changes for a group as a whole: of several scales the step with the lowest number that helps is shown.

        `members`: how many wait. `trials`: of one member of each spec.
        """
        yield from ()

    @classmethod
    def of_decision(cls, decision: Decision) -> Iterator["Suggestion"]:
        """What the decision itself shows, without a trial."""
        yield from ()

    def with_scenario(self, scenario: Scenario) -> Self:
        """With what only the scenario knows."""
        return self

    def without_plugins(self, profile: Profile) -> Profile:
        """The profile with which the change is tried for many pods."""
        return profile

    # --- how it is shown ----------------------------------------------------------------------------------------------

    def text(self, step: "Step") -> str:
        """The change in words, as what somebody could do."""
        raise NotImplementedError

    def command(self, step: "Step") -> str:
        """A line for a shell; empty where there is none. Changes of the pod itself have theirs from `commands`."""
        return ""

    def note(self, pod: Pod, objects: ClusterObjects) -> str:
        """What to know before running the command."""
        return ""

    def no_command(self, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
        """Why no command changes it, and what to do instead. `is_new`: the pod is only a manifest yet."""
        return ""

    @property
    def gives_up(self) -> str:
        """The resource that the pod would do without altogether: that helps hardly anybody, so it hides no pair."""
        return ""

    @property
    def claim_template(self) -> str:
        """The template of the claim that is changed: it is changed instead, and the claim made again with the pod."""
        return ""

    @property
    def new_claims(self) -> Sequence[str]:
        """The pod's claims that have to be made again from their templates, and with them the pod."""
        return ()


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one kind."""

    facts: SuggestionKind
    changes: tuple[ObjectChange, ...]
    size: float
    """0..1: how much of what the pod asks for is given up."""
    subject: str = ""
    """Of proposals of the same kind and subject the first that helps is shown."""
    comes_last: bool = False
    """Whether all others come before: the pod would be where it hardly belongs, have nothing, or it is soon undone."""
    harm: Harm = Harm.NONE
    gone: tuple[PodInfo, ...] = ()
    """The pods that `changes` delete."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change after which the cycle finds a node: one step, or two where no single one helps."""

    steps: tuple[Step, ...]
    changes: tuple[ObjectChange, ...]
    """Of all steps; one per object."""
    nodes: int
    """How many nodes the pod would then fit on."""
    awaited: tuple[ObjectChange, ...] = ()
    """What others are about to do, as it was tried: nothing to be applied."""

    @property
    def harm(self) -> Harm:
        """The worst that one of its steps does."""
        return max(step.harm for step in self.steps)

    @property
    def is_of_the_pod(self) -> bool:
        """Whether all of it is what the pod, its claims or its group ask for."""
        return all(step.facts.is_of_the_pod for step in self.steps)


def first_of_each(steps: Iterator[Step], trials: Trials) -> Iterator[Suggestion]:
    """Tries the steps: of each kind and subject the first that helps."""
    shown: set[tuple[str, str]] = set()
    for step in steps:
        key = step.facts.kind, step.subject
        if key not in shown and len(rows := trials.rows(step.changes, step.gone)):
            shown.add(key)
            yield Suggestion((step,), step.changes, len(rows))


# --- what the pod asks for --------------------------------------------------------------------------------------------


class PodChange(SuggestionKind, frozen=True):
    """A kind of change of the pod itself, proposed as `Demand`s."""

    is_of_the_pod = True

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator["Demand"]:
        """What the pod asks for, each as its largest relaxation: a constraint without effect, a request of nothing.

        If the pod fits nowhere with that, no smaller relaxation helps; if it does, `smallest` finds the one that does.
        """
        yield from ()

    @classmethod
    def relaxed(cls, demands: Sequence["Demand"], trials: Trials) -> Iterator["Demand"]:
        """Smaller relaxations that are tried by themselves, once all of the pod's demands were."""
        yield from ()

    @property
    def lowered_resource(self) -> str:
        """The resource of which less is requested; empty for all other kinds."""
        return ""

    def smallest(self, demand: "Demand", widest: Rows, rows_of: RowsOf, beside: "Beside") -> tuple["Demand", Rows]:
        """The smallest relaxation that helps, with the rows that it opens.

        `widest`: those of the largest relaxation, at least one.
        """
        return demand, widest

    def smallest_pair(
        self, first: "Demand", second: "Demand", rows: Rows, trials: Trials
    ) -> tuple[tuple["Demand", "Demand"], Rows] | None:
        """The same for two demands of this kind at once, where one after the other would not find it; else `None`."""
        return None

    def in_group(self, demand: "Demand", pod: Pod, trials: Trials) -> "tuple[GroupScale[Demand], Demand] | None":
        """Smaller relaxations for the members of a group, and what is shown if none of them helps; `None`: nothing is.

        `pod`: one of the members that change alike.
        """
        return NO_SCALE, demand


@dataclass(frozen=True, slots=True)
class Beside:
    """What is changed together with a demand: other objects, and pods that go."""

    trials: Trials
    changes: Sequence[ObjectChange] = ()
    gone: Sequence[PodInfo] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """Something that the pod asks for."""

    facts: PodChange
    patch: Patch
    """The largest relaxation."""
    size: float = HALF
    family: str = ""
    """Demands that say more and less of the same: where one of a family helps, its `is_last_resort` is left out."""
    is_last_resort: bool = False
    comes_last: bool = False
    """As of a `Step`."""
    harm: Harm = Harm.NONE

    def step(self, *changes: ObjectChange) -> Step:
        """The demand given up."""
        return Step(self.facts, changes, self.size, comes_last=self.comes_last, harm=self.harm)


@dataclass(frozen=True, slots=True)
class GroupScale(Generic[T]):
    """Changes by number: where one helps a group, larger ones do as well."""

    most: int
    at: Callable[[int], T | None]
    """Of 1, the smallest change, to `most`; `None` where nothing can be changed so."""


NO_SCALE: Final[GroupScale[Demand]] = GroupScale(0, lambda _: None)


def of_demands(chosen: tuple[Demand, ...], rows: Rows, trials: Trials) -> Suggestion:
    """Demands that were given up as a suggestion, with one patch of the pod."""
    whole = trials.of_pod(joined(demand.patch for demand in chosen))
    steps = tuple(demand.step(trials.of_pod(demand.patch)) for demand in chosen)
    return Suggestion(steps, (whole,), len(rows))
