"""Macros: calls that become comprehensions (or other calls) before anything is checked."""

from collections.abc import Callable

from kscheduler.cel.syntax.maker import MacroError, Maker
from kscheduler.cel.syntax.nodes import Call, Fold, Ident, ListNode, Select, SyntaxNode

Expander = Callable[[Maker, SyntaxNode | None, list[SyntaxNode]], SyntaxNode | None]

_OLD_ACCUMULATOR = "__result__"
_UNUSED = "#unused"
_SORT_INPUT = "@__sortBy_input__"
_OVERWRITES = "iteration variable overwrites accumulator variable"


def _name(node: SyntaxNode, otherwise: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.id, otherwise)
    return node.name


def _variable(node: SyntaxNode, otherwise: str) -> str:
    name = _name(node, otherwise)
    if name in (Maker.ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node.id, _OVERWRITES)
    return name


def _variables(args: list[SyntaxNode]) -> tuple[str, str, str]:
    names = [_name(arg, "argument must be a simple name") for arg in args[:2]]
    if names[0] == names[1]:
        raise MacroError(args[1].id, f"duplicate variable name: {names[0]}")
    for arg in args[:2]:
        _variable(arg, "")
    return names[0], names[1], Maker.ACCUMULATOR


def _one(args: list[SyntaxNode], otherwise: str) -> tuple[str, str, str]:
    return _variable(args[0], otherwise), "", Maker.ACCUMULATOR


def _quantified(args: list[SyntaxNode]) -> tuple[tuple[str, str, str], SyntaxNode]:
    """The variables (one or two) and the predicate."""
    if len(args) == 3:
        return _variables(args), args[2]
    return _one(args, "argument must be a simple name"), args[1]


def _has(make: Maker, _target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    if not isinstance(args[0], Select):
        raise MacroError(args[0].id, "invalid argument to has() macro")
    return make.presence(args[0].operand, args[0].field)


def _all(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    names, predicate = _quantified(args)
    init = make.literal(True)  # noqa: FBT003
    condition = make.call("@not_strictly_false", make.accumulator())
    step, result = _step_and_result(make, "_&&_", predicate)
    return make.fold(_present(target), names, init, condition, step, result)


def _step_and_result(make: Maker, operator: str, predicate: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode]:
    step = make.call(operator, make.accumulator(), predicate)
    return step, make.accumulator()


def _present(target: SyntaxNode | None) -> SyntaxNode:
    if target is None:
        message = "a receiver macro has a target"
        raise AssertionError(message)
    return target


def _exists(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    names, predicate = _quantified(args)
    init = make.literal(False)  # noqa: FBT003
    negated = make.call("!_", make.accumulator())
    condition = make.call("@not_strictly_false", negated)
    step, result = _step_and_result(make, "_||_", predicate)
    return make.fold(_present(target), names, init, condition, step, result)


def _exists_one(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    names, predicate = _quantified(args)
    init = make.literal(0)
    condition = make.literal(True)  # noqa: FBT003
    accumulator, one = make.accumulator(), make.literal(1)
    counted = make.call("_+_", accumulator, one)
    step = make.call("_?_:_", predicate, counted, make.accumulator())
    accumulator, one = make.accumulator(), make.literal(1)
    result = make.call("_==_", accumulator, one)
    return make.fold(_present(target), names, init, condition, step, result)


def _collected(make: Maker, target: SyntaxNode, names: tuple[str, str, str], parts: list[SyntaxNode]) -> SyntaxNode:
    """A list of `parts[-1]` for every element for which `parts[0]` holds (if there are two)."""
    init = make.list()
    condition = make.literal(True)  # noqa: FBT003
    accumulator = make.accumulator()
    step: SyntaxNode = make.call("_+_", accumulator, make.list(parts[-1]))
    if len(parts) > 1:
        step = make.call("_?_:_", parts[0], step, make.accumulator())
    return make.fold(target, names, init, condition, step, make.accumulator())


def _map(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    return _collected(make, _present(target), _one(args, "argument is not an identifier"), args[1:])


def _filter(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    names = _one(args, "argument is not an identifier")
    return _collected(make, _present(target), names, [args[1], args[0]])


def _inserted(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode], *, with_key: bool) -> SyntaxNode:
    names = _variables(args)
    parts = args[2:]
    # The arguments of a call are made before it, and its step before the fold's own parts.
    accumulator = make.accumulator()
    inserted = [accumulator, make.ident(names[0]), parts[-1]] if with_key else [accumulator, parts[-1]]
    step: SyntaxNode = make.call("cel.@mapInsert", *inserted)
    if len(parts) > 1:
        step = make.call("_?_:_", parts[0], step, make.accumulator())
    init = make.map()
    condition = make.literal(True)  # noqa: FBT003
    return make.fold(_present(target), names, init, condition, step, make.accumulator())


def _transform_list(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    names = _variables(args)
    parts = args[2:]
    accumulator = make.accumulator()
    step: SyntaxNode = make.call("_+_", accumulator, make.list(parts[-1]))
    if len(parts) > 1:
        step = make.call("_?_:_", parts[0], step, make.accumulator())
    init = make.list()
    condition = make.literal(True)  # noqa: FBT003
    return make.fold(_present(target), names, init, condition, step, make.accumulator())


def _transform_map(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    return _inserted(make, target, args, with_key=True)


def _transform_map_entry(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    return _inserted(make, target, args, with_key=False)


def _bound(make: Maker, name: str, value: SyntaxNode, result: SyntaxNode) -> Fold:
    """`result` with a variable: a comprehension over nothing, whose accumulator is the variable."""
    over = make.list()
    never = make.literal(False)  # noqa: FBT003
    return make.fold(over, (_UNUSED, "", name), value, never, make.ident(name), result)


def _bind(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = _name(args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(make, name, args[1], args[2])


def _opt_bound(make: Maker, target: SyntaxNode, name: str, result: SyntaxNode) -> Fold:
    over = make.list()
    value = make.member_call("value", make.copy(target))
    never = make.literal(False)  # noqa: FBT003
    return make.fold(over, (_UNUSED, "", name), value, never, make.ident(name), result)


def _opt_map(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    name = _name(args[0], "optMap() variable name must be a simple identifier")
    target = _present(target)
    there = make.member_call("hasValue", target)
    value = make.call("optional.of", _opt_bound(make, target, name, args[1]))
    return make.call("_?_:_", there, value, make.call("optional.none"))


def _opt_flat_map(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    name = _name(args[0], "optFlatMap() variable name must be a simple identifier")
    target = _present(target)
    there = make.member_call("hasValue", target)
    value = _opt_bound(make, target, name, args[1])
    return make.call("_?_:_", there, value, make.call("optional.none"))


def _sort_by(make: Maker, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    variable = make.ident(_SORT_INPUT)
    target = _present(target)
    if not isinstance(target, (ListNode, Select, Ident, Fold, Call)):
        wanted = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.id, wanted)
    keys = _map(make, make.copy(variable), args)
    call = make.member_call("@sortByAssociatedKeys", make.copy(variable), keys)
    over = make.list()
    never = make.literal(False)  # noqa: FBT003
    return make.fold(over, (_UNUSED, "", _SORT_INPUT), target, never, variable, call)


# By name, number of arguments, and whether there is a target.
MACROS: dict[tuple[str, int, bool], Expander] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("all", 3, True): _all,
    ("exists", 3, True): _exists,
    ("existsOne", 3, True): _exists_one,
    ("exists_one", 3, True): _exists_one,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
}
