"""Plans a checked expression: what each part is at run time, put together into one closure."""

from collections.abc import Callable
from typing import Any

from kscheduler.cel.checking.checker import Checked, Reference
from kscheduler.cel.checking.messages import TYPE_NAMES
from kscheduler.cel.planning import calls, folds
from kscheduler.cel.planning.attributes import (
    Attribute,
    Conditional,
    EvaluationRules,
    Frame,
    Qualifier,
    Rooted,
    Run,
    charged,
    index_error,
)
from kscheduler.cel.planning.calls import (
    CONVERSIONS,
    Binding,
    Dispatcher,
    PlanError,
    member_keys,
    membership,
    with_regex,
)
from kscheduler.cel.planning.costs import cost_of
from kscheduler.cel.planning.messages import construct
from kscheduler.cel.syntax.maker import Maker
from kscheduler.cel.syntax.nodes import Call, Fold, Ident, ListNode, Literal, MapNode, Select, StructNode, SyntaxNode
from kscheduler.cel.values.kinds import ErrorValue, PanicError


class Part:
    """A planned part: a constant, an attribute that may get fields, or a closure."""

    __slots__ = ("attribute", "constant", "is_constant", "presence", "run")

    def __init__(self, run: Run | None = None, attribute: Attribute | None = None) -> None:
        self.run, self.attribute = run, attribute
        self.constant: Any = None
        self.is_constant = self.presence = False

    def build(self) -> Run:
        if self.run is not None:
            return self.run
        if self.attribute is None:
            message = "a part is a closure or an attribute"
            raise AssertionError(message)
        # Built once, when all fields are known.
        self.run = charged(self.attribute, presence=self.presence)
        return self.run


def _constant(value: Any) -> Part:
    part = Part(lambda _frame: value)
    part.constant, part.is_constant = value, True
    return part


class ExpressionPlanner:
    """Plans one expression."""

    def __init__(self, checked: Checked, dispatcher: Dispatcher, rules: EvaluationRules) -> None:
        self._checked, self._dispatcher, self._rules = checked, dispatcher, rules
        self._scopes: list[dict[str, Run]] = []
        self.slots = 0

    def plan(self, node: SyntaxNode) -> Run:
        """The closure of an expression. Raises `PlanError`."""
        return self._plan(node).build()

    def _plan(self, node: SyntaxNode) -> Part:
        match node:
            case Literal(value=value):
                return _constant(value)
            case Ident():
                return self._name(node, self._checked.references[node.id])
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case StructNode():
                return self._struct(node)
            case Fold():
                return self._fold(node)
        message = f"unsupported expr: {node!r}"
        raise PlanError(message)

    def _name(self, node: SyntaxNode, reference: Reference) -> Part:
        if reference.value is not None:
            return _constant(reference.value)
        if self._checked.types[node.id].kind == "type":
            described = TYPE_NAMES.get(reference.name)
            if described is None:
                message = f"reference to undefined type: {reference.name}"
                raise PlanError(message)
            return _constant(described)
        return Part(attribute=self._rooted(self._variable(reference), uncounted=reference.is_global))

    def _rooted(self, root: Run, *, uncounted: bool = False) -> Rooted:
        return Rooted(root, self._rules, uncounted=uncounted)

    def _variable(self, reference: Reference) -> Run:
        name = reference.name
        if not reference.is_global:
            for scope in reversed(self._scopes):
                if name in scope:
                    return scope[name]

        def resolve(frame: Frame) -> Any:
            return frame.globals[name]

        return resolve

    def _attribute_of(self, part: Part) -> Part:
        """The part as an attribute that can get fields."""
        if part.attribute is not None:
            return part
        return Part(attribute=self._rooted(part.build()))

    def _select(self, node: Select) -> Part:
        reference = self._checked.references.get(node.id)
        if reference is not None:
            return self._name(node, reference)
        part = self._attribute_of(self._plan(node.operand))
        if part.attribute is not None:
            part.attribute.add(Qualifier(node.field, presence=node.test_only))
        part.presence = part.presence or node.test_only
        return part

    def _index(self, args: list[Part], *, optional: bool) -> Part:
        part, index = self._attribute_of(args[0]), args[1]
        if index.is_constant:
            wrong = index_error(index.constant)
            if wrong is not None:
                raise PlanError(wrong.message)
            qualifier = Qualifier(index.constant, optional=optional)
        else:
            attribute = index.attribute or self._rooted(index.build())
            qualifier = Qualifier(None, attribute, optional=optional)
        if part.attribute is not None:
            part.attribute.add(qualifier)
        return part

    def _conditional(self, args: list[Part]) -> Part:
        condition, yes, no = args
        yes_attribute, no_attribute = (branch.attribute or self._rooted(branch.build()) for branch in (yes, no))
        return Part(attribute=Conditional(condition.build(), yes_attribute, no_attribute, self._rules))

    def _call(self, node: Call) -> Part:
        args = [self._plan(arg) for arg in ([node.target, *node.args] if node.target else node.args)]
        match node.function:
            case "_&&_" | "_||_":
                return Part(calls.logic([arg.build() for arg in args], node.function == "_||_"))
            case "_?_:_":
                return self._conditional(args)
            case "_==_" | "_!=_":
                negated = node.function == "_!=_"
                stops = self._rules.stops_at_errors
                return Part(calls.equals(args[0].build(), args[1].build(), negated=negated, stops=stops))
            case "_[_]":
                return self._index(args, optional=False)
            case "_?._" | "_[?_]":
                return self._index(args, optional=True)
        return self._function(node, args)

    def _function(self, node: Call, args: list[Part]) -> Part:
        overloads = self._checked.references[node.id].overloads
        overload = overloads[0] if len(overloads) == 1 else ""
        if node.function in ("or", "orValue") and len(args) == 2:
            left, right = (arg.build() for arg in args)
            is_value = node.function == "orValue"
            return Part(calls.optional_or(left, right, value=is_value, lenient=self._rules.lenient_or))
        binding = self._dispatcher.find(node.function, overloads, len(args))
        if binding is None:
            message = f"no such overload: {node.function}"
            raise PlanError(message)
        folded = self._folded(node, args, overload, binding)
        if folded is not None:
            return folded
        if node.function in ("matches", "find", "findAll") and len(args) > 1 and type(args[1].constant) is str:
            binding = with_regex(node.function, args[1].constant)
        return Part(self._called(node, args, overload, binding))

    def _folded(self, node: Call, args: list[Part], overload: str, binding: Binding) -> Part | None:
        """The part if it is known before an evaluation, or simpler than a call."""
        if node.function in CONVERSIONS and len(args) == 1 and args[0].is_constant:
            value = args[0].constant
            result = value if type(value) is ErrorValue else binding.call(value)
            if type(result) is ErrorValue:
                raise PlanError(result.message)
            return _constant(result)
        if overload == "in_list" and args[1].is_constant:
            if args[1].constant == []:
                return _constant(False)  # noqa: FBT003
            keys = member_keys(args[1].constant)
            return None if keys is None else Part(membership(args[0].build(), keys))
        return None

    def _called(self, node: Call, args: list[Part], overload: str, binding: Binding) -> Run:
        cost = cost_of(node.function, overload, self._rules)
        runs = [arg.build() for arg in args]
        stops = self._rules.stops_at_errors
        if not runs:
            return calls.nullary(binding.call, cost)
        if len(runs) == 1 and not binding.stops:
            strict = node.function != "@not_strictly_false"
            # Of a negation even an error counts.
            if not stops or not strict or node.function == "!_":
                return calls.unary(runs[0], binding.call, cost, strict=strict)
        if stops or binding.stops or len(runs) > 2:
            return calls.stopping(runs, binding.call, cost, last_counts=not stops)
        return calls.binary(runs[0], runs[1], binding.call, cost)

    def _list(self, node: ListNode) -> Part:
        parts = [self._plan(element) for element in node.elements]
        elements = [(part.build(), at in node.optionals) for at, part in enumerate(parts)]
        run = folds.new_list(elements, counts_errors=not self._rules.stops_at_errors)
        return _evaluated(run) if all(part.is_constant for part in parts) else Part(run)

    def _map(self, node: MapNode) -> Part:
        entries: list[tuple[Run, Run, bool]] = []
        is_constant = True
        for entry in node.entries:
            key, value = self._plan(entry.key), self._plan(entry.value)
            is_constant = is_constant and key.is_constant and value.is_constant
            entries.append((key.build(), value.build(), entry.optional))
        run = folds.new_map(entries, counts_errors=not self._rules.stops_at_errors)
        return _evaluated(run) if is_constant else Part(run)

    def _struct(self, node: StructNode) -> Part:
        fields = [(entry.key, self._plan(entry.value).build(), entry.optional) for entry in node.fields]
        counts_errors = not self._rules.stops_at_errors
        return Part(folds.new_struct(fields, construct(node.name), counts_errors=counts_errors))

    def _fold(self, node: Fold) -> Part:
        init = self._plan(node.init).build()
        over = self._plan(node.range).build()
        first, accumulated = self.slots, self.slots + 2
        second = self.slots + 1 if node.var2 else -1
        self.slots += 4
        in_place = not self._rules.bound_stays or node.accu == Maker.ACCUMULATOR
        self._scopes.append({node.accu: folds.accumulator(accumulated, init, in_place=in_place)})
        variables = {node.var: _slot(first), **({node.var2: _slot(second)} if node.var2 else {})}
        # The accumulator hides a variable of the same name.
        self._scopes.append({name: run for name, run in variables.items() if name != node.accu})
        condition = self._plan(node.condition).build()
        step = self._plan(node.step).build()
        self._scopes.pop()
        result = self._plan(node.result).build()
        self._scopes.pop()
        slots, of_nothing = (first, second, accumulated), self._rules.ranges_of_nothing
        return Part(folds.fold(over, slots, (condition, step, result), of_nothing=of_nothing))


def _slot(number: int) -> Run:
    def resolve(frame: Frame) -> Any:
        return frame.slots[number]

    return resolve


def _evaluated(run: Run) -> Part:
    """What constants make, worked out once."""
    try:
        return _constant(run(Frame({}, 0, 2**63)))
    except PanicError as panic:
        raise PlanError(str(panic)) from None


Construct = Callable[[dict[str, Any]], Any]
