"""Which parts of its variables an expression reads: paths of names from a variable on, as far as they are constant.

    device.attributes["a.example.com"].?model.orValue("")   device, attributes, a.example.com, model
    device.attributes["a.example.com"].exists(...)          device, attributes, a.example.com
    [device]                                                device

A path ends where the next part is not written out: all below it may be read. Macros have become comprehensions by then,
and a name that one of them binds is taken for a variable: rather too much is found than too little.
"""

from kscheduler.cel.syntax.nodes import Call, Ident, Literal, Select, SyntaxNode, children

Path = tuple[str, ...]

_INDEXES = frozenset(("_[_]", "_[?_]", "_?._"))


def paths_read(node: SyntaxNode) -> frozenset[Path]:
    """The paths of all variables. Takes a moment for each node, and no frames."""
    found: set[Path] = set()
    left: list[tuple[SyntaxNode, Path]] = [(node, ())]
    while left:
        part, below = left.pop()
        step = _step(part)
        if step is not None:  # `below` is what is read of this part
            left.append((step[0], (step[1], *below)))
        elif isinstance(part, Ident):
            found.add((part.name.removeprefix("."), *below))
        else:
            left += [(each, ()) for each in children(part)]
    return frozenset(found)


def _step(node: SyntaxNode) -> tuple[SyntaxNode, str] | None:
    """What a constant name is looked up in, and the name; `None` for anything else."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.target is None and node.function in _INDEXES:
        operand, key = node.args
        if isinstance(key, Literal) and type(key.value) is str:
            return operand, key.value
    return None
