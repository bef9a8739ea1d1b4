"""The catalogue of hostile objects: each field of each kind that the scheduler reads, filled in several styles.

A case is an id, such as `Pod-spec.nodeSelector-unique`, and a function of a seed and a size in bytes to JSON objects,
each with its kind, in the order of their creation. The same seed gives the same objects, another seed no word of them.
The objects come with what makes the scheduler look: a claim with a pod that uses it, a group with its members.

    case = CASES["Pod-spec.nodeSelector-unique"]
    for kind, tree in case.objects(seed=1, size=1_000_000): ...
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from kscheduler.api.groups import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    SCHEDULER_PLUGINS_LABEL,
    SCHEDULER_PLUGINS_POD_GROUPS,
    VOLCANO_ANNOTATION,
    VOLCANO_POD_GROUPS,
)
from kscheduler.api.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    KINDS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    STORAGE_CLASSES,
    Kind,
)
from tests.hostile.crafted import CRAFTED, REFUSED, Made, pod
from tests.hostile.shapes import Filling, Path, Step, is_collection, named, paths, steps
from tests.hostile.sound import FORMS, NODE, Tree
from tests.hostile.words import Style, Words

NAMESPACE: Final = "hostile"
# Bytes of the largest object that etcd takes.
LARGEST: Final = 1_500_000
# The kinds that the scheduler may watch.
PLAYED_KINDS: Final[Sequence[Kind]] = (
    *KINDS.values(),
    POD_GROUPS,
    COMPOSITE_POD_GROUPS,
    SCHEDULER_PLUGINS_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)

# Fields that a user's request alone does not set.
_ONLY_WITH_OTHERS: Final = frozenset(
    {
        # set by the API server, by admission or by the kubelet, or behind gates that are off by default
        "spec.overhead",
        "spec.resources",
        "restartPolicyRules",
        "volumeMounts",
        "bindMountOptions",
        "derivedAttributes",
        "partitionTypeAttribute",
        "skipNodeOperations",
        "nodeAllocatableResources",
        "compatibilityGroups",
        "requestPolicy",
        "status",
        "podPreemptionPolicy",
        "creationTimestamp",
        "ints",
        "bools",
        "strings",
        "versions",
    }
)


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of hostile object."""

    id: str
    kind: Kind
    make: Callable[[int, int], Sequence[Made]] = field(repr=False)
    fields: frozenset[tuple[str, str]] = frozenset()
    """The fields (struct, field) on the way to what is filled."""
    is_accepted: bool = True
    """Whether the API server takes the objects from users who may create them."""

    def objects(self, seed: int, size: int = LARGEST) -> Sequence[Made]:
        """The objects, each at most `size` bytes long, in the order of their creation."""
        return [(kind, _whole(kind, tree)) for kind, tree in self.make(seed, size)]


def _whole(kind: Kind, tree: Tree) -> Tree:
    return {"apiVersion": kind.group_version, "kind": kind.name, **tree}


def _metadata(kind: Kind, seed: int) -> Tree:
    name = NODE if kind is CSI_NODES else f"hostile-{seed}"
    namespace = {"namespace": NAMESPACE} if kind.namespaced else {}
    uid = f"{seed % 2**32:08x}-1111-4111-8111-{len(kind.plural):012x}"
    return {"name": name, "uid": uid, **namespace}


def _field_case(kind: Kind, path: Path, style: Style, variant: int) -> Case:
    def make(seed: int, size: int) -> Sequence[Made]:
        tree = Filling(kind.type, path, Words(seed, style, variant)).tree(size, _metadata(kind, seed))
        return _with_companions(kind, tree, seed)

    said = f"-{variant}" if variant else ""
    touched = {step.key for step in path}
    if style == Style.FULL and path[-1].holds_struct:
        touched.update(_inside(path[-1]))
    places = {step.field.encode_name for step in path} | {named(path[:2])}
    is_accepted = not places & _ONLY_WITH_OTHERS
    return Case(f"{_name(kind)}-{named(path)}-{style}{said}", kind, make, frozenset(touched), is_accepted)


def _inside(step: Step) -> Iterator[tuple[str, str]]:
    for inner in steps(step.inner):
        if inner.shape == "one":
            yield inner.key
            if inner.holds_struct:
                yield from _inside(inner)


def _name(kind: Kind) -> str:
    """The kind's name, with the first part of its group where several kinds have the name."""
    of_others = kind in (SCHEDULER_PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS)
    return f"{kind.group.partition('.k8s')[0].removesuffix('.sh')}.{kind.name}" if of_others else kind.name


def _odd_case(kind: Kind, singles: Sequence[Path]) -> Case:
    """Small objects that together give each single value of the kind each odd value."""

    def make(seed: int, size: int) -> Sequence[Made]:
        made: list[Made] = []
        spent = 0
        for number, path in enumerate(singles):
            words = Words(seed, Style.FULL, number)
            for _ in range(number % 5):
                words.number()
            metadata = _metadata(kind, seed * 1000 + number)
            tree = Filling(kind.type, path, words).tree(0, metadata)
            spent += 1000
            if spent > size and made:
                break
            made += _with_companions(kind, tree, seed * 1000 + number)
        return made

    touched = frozenset(step.key for path in singles for step in path)
    return Case(f"{_name(kind)}-odd-values", kind, make, touched, is_accepted=False)


def _with_companions(kind: Kind, tree: Tree, seed: int) -> list[Made]:
    """The object, and what makes the scheduler use it."""
    name, own = tree["metadata"]["name"], (kind, tree)
    if kind in (PODS, NODES):
        return [own]
    user = f"user-{seed}"
    if kind is RESOURCE_CLAIMS:
        return [own, pod(user, resourceClaims=[{"name": "one", "resourceClaimName": name}])]
    if kind is POD_GROUPS:
        return [own, *(pod(f"{user}-{n}", schedulingGroup={"podGroupName": name}) for n in range(2))]
    if kind is COMPOSITE_POD_GROUPS:
        below: Tree = {"metadata": {"name": f"below-{seed}", "namespace": NAMESPACE, "uid": f"below-{seed}"}}
        below["spec"] = {"parentCompositePodGroupName": name, "schedulingPolicy": {"gang": {"minCount": 1}}}
        return [own, (POD_GROUPS, below), pod(user, schedulingGroup={"podGroupName": f"below-{seed}"})]
    if kind is SCHEDULER_PLUGINS_POD_GROUPS:
        return [own, pod(user, labels={SCHEDULER_PLUGINS_LABEL: name})]
    if kind is VOLCANO_POD_GROUPS:
        return [own, pod(user, annotations={VOLCANO_ANNOTATION: name})]
    if kind is PERSISTENT_VOLUME_CLAIMS:
        return [own, pod(user, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])]
    if kind in (PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_STORAGE_CAPACITIES, CSI_DRIVERS):
        bound = {"volumeName": name} if kind is PERSISTENT_VOLUMES else {"storageClassName": _class_of(kind, tree)}
        claim = {
            "metadata": {"name": f"claim-{seed}", "namespace": NAMESPACE, "uid": f"claim-{seed}"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **bound},
        }
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": f"claim-{seed}"}}]
        return [own, (PERSISTENT_VOLUME_CLAIMS, claim), pod(user, volumes=volumes)]
    if kind is RESOURCE_CLAIM_TEMPLATES:
        return [own]
    # Services, controllers, budgets, namespaces, devices and their classes concern every pod beside them.
    return [own, pod(user, labels={"app": "x"})]


def _class_of(kind: Kind, tree: Tree) -> str:
    name: str = tree["metadata"]["name"] if kind is STORAGE_CLASSES else tree.get("storageClassName", "fast")
    return name


def _variants(path: Path) -> int:
    """How many values the enumeration in an entry has, at most."""
    last = path[-1]
    if not last.holds_struct:
        return 2 if last.field.name == "values" else 1
    tables = (FORMS.get(".".join(step.key), FORMS.get(step.field.name)) for step in steps(last.inner))
    return max((len(table) for table in tables if isinstance(table, tuple)), default=1)


def _of_kind(kind: Kind) -> Iterator[Case]:
    found = list(paths(kind.type))
    for path in filter(is_collection, found):
        for style in Style:
            if style == Style.FULL and not path[-1].holds_struct:
                continue
            for variant in range(_variants(path) if style == Style.UNIQUE else 1):
                yield _field_case(kind, path, style, variant)
    in_no_list = [path for path in found if all(step.shape == "one" for step in path)]
    if in_no_list:
        yield _odd_case(kind, in_no_list)


def _all() -> Iterator[Case]:
    for kind in (*PLAYED_KINDS, RESOURCE_CLAIM_TEMPLATES):
        yield from _of_kind(kind)
    for name, (kind, make) in CRAFTED.items():
        yield Case(name, kind, make, is_accepted=name not in REFUSED)


# All cases by id.
CASES: Final[Mapping[str, Case]] = MappingProxyType({case.id: case for case in _all()})
