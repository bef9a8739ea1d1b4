"""The API reference: what docs/plugin-api.md promises, from docstrings and signatures.

`.. public-names:: kscheduler.framework.status` documents the names that the page has for the module, and of each class
the members that it promises. All is read from the source, and not from imported modules as `sphinx.ext.autodoc` does:
a type has the name that authors know (`Rows`, and not the array that stands behind it), a constant has the comment
above it, and an attribute of a constructor its type.

Our docstrings are Markdown, of which they use little: code in backticks, lists, and examples that are indented.
"""

import ast
import copy
import re
from collections.abc import Iterable, Iterator
from typing import Final

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

from tests.framework.public_surface import (
    PAGE,
    SHORT,
    Definition,
    Member,
    definition,
    listed_members,
    members_of,
    rows,
    source_of,
)

NAMES: Final = dict(rows("Names"))
MEMBERS: Final = dict(rows("Members"))
# Where a name is documented. What `kscheduler` itself has is there, too.
PLACES: Final = {name: module for module, names in NAMES.items() if module != SHORT for name in names}
# Classes that users do not make: their parameters are nobody's business.
GIVEN: Final = frozenset({*MEMBERS, "RunningCluster"})
# A type that is defined further below.
_QUOTED, _UNQUOTED = re.compile(r"(?<=: )'([\w.]+)'"), r"\1"
# Characters; a longer value says less than its name.
_LONGEST_VALUE: Final = 120
_CODE: Final = re.compile(r"`([^`]+)`")
# What reStructuredText would read as emphasis, substitution or reference.
_SPECIAL: Final = re.compile(r"[*|\\](?! )|(?<=\w)_\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class PublicNames(SphinxDirective):
    """`.. public-names:: MODULE`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The entries, in the order of the page. Raises `KeyError` for a module that promises nothing."""
        (module,) = self.arguments
        for name in {module, *(definition(module, name)[0] for name in NAMES[module])}:
            self.env.note_dependency(str(source_of(name)))
        self.env.note_dependency(str(PAGE))
        return self.parse_text_to_nodes("\n".join(entries(module)))


# --- entries ----------------------------------------------------------------------------------------------------------


def entries(module: str) -> Iterator[str]:
    """Lines of reStructuredText for a module."""
    text = ast.get_docstring(ast.parse(source_of(module).read_text(encoding="utf-8"))) or ""
    yield from (f".. py:module:: {module}", "", *restructured(text), "")
    for name in NAMES[module]:
        home, node = definition(module, name)
        text = _text_of(home, node)
        if module == SHORT:
            first = " ".join(restructured(text.partition("\n\n")[0]))
            yield f"- :py:obj:`{name} <{PLACES[name]}.{name}>`: {first}"
        elif isinstance(node, ast.ClassDef):
            yield from _of_class(module, name, home, node)
        elif isinstance(node, Function):
            yield from _entry(f"function:: {name}{signature(node)}", text)
        else:
            yield from _entry(f"data:: {name}", text, _options(node))


def _text_of(home: str, node: Definition) -> str:
    """A docstring; of a constant the lines of comment that end above it."""
    if isinstance(node, ast.ClassDef | Function):
        return ast.get_docstring(node) or ""
    lines = source_of(home).read_text(encoding="utf-8").splitlines()[: node.lineno - 1]
    found: list[str] = []
    while lines and lines[-1].startswith("# "):
        found.insert(0, lines.pop().removeprefix("# "))
    return "\n".join(found)


def _entry(head: str, text: str, options: Iterable[str] = ()) -> Iterator[str]:
    yield from (f".. py:{head}", *(f"   {option}" for option in options), "")
    yield from (*(f"   {line}" for line in restructured(text)), "")


def _of_class(module: str, name: str, home: str, node: ast.ClassDef) -> Iterator[str]:
    members = {member.name: member for member in members_of(home, node)}
    bases = [text for text in map(ast.unparse, node.bases) if text != "Protocol"]
    is_raised = any(text.endswith(("Error", "Exception")) for text in bases)
    above = [f"Bases: `{'`, `'.join(bases)}`."] if bases else []
    text = "\n\n".join([*above, _text_of(home, node)])
    is_given = not GIVEN.isdisjoint((name, f"{module}.{name}"))
    head = f"{name}{'' if is_given else _constructor(node, members)}"
    yield from _entry(f"{'exception' if is_raised else 'class'}:: {head}", text)
    for shown in listed_members(MEMBERS, module, name) or members:
        if shown != "__init__":
            yield from (f"   {line}" for line in _of_member(members[shown]))


def _of_member(member: Member) -> Iterator[str]:
    node = member.node
    if not isinstance(node, Function):
        yield from _entry(f"attribute:: {member.name}", member.text, _options(node))
        return
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if decorators & {"property", "cached_property"}:
        yield from _entry(f"property:: {member.name}", member.text, [f":type: {_annotation(node.returns)}"])
        return
    marks = [":async:"] if isinstance(node, ast.AsyncFunctionDef) else []
    yield from _entry(f"method:: {member.name}{signature(node, is_method=True)}", member.text, marks)


def _options(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """Type and value, as far as the source has them and they fit on a line."""
    if isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith("Final"):
        yield f":type: {_annotation(node.annotation)}"
    value = ast.unparse(node.value) if node.value is not None else ""
    if value and len(value) <= _LONGEST_VALUE and not value.startswith(("auto(", "np.", "msgspec.", "field(")):
        yield f":value: {value}"


def signature(node: Function, *, is_method: bool = False) -> str:
    """Parameters and result, without the object of a method."""
    args = copy.deepcopy(node.args)
    if is_method:
        args.args.pop(0)
    returns = f" -> {_annotation(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    return f"({_QUOTED.sub(_UNQUOTED, ast.unparse(args))}){returns}"


def _constructor(node: ast.ClassDef, members: dict[str, Member]) -> str:
    """What a class is made of, if it says so: by `__init__`, or by the fields of a dataclass."""
    if "__init__" in members:
        made_by = members["__init__"].node
        return signature(made_by, is_method=True) if isinstance(made_by, Function) else ""
    if not any(ast.unparse(decorator).startswith("dataclass") for decorator in node.decorator_list):
        return ""
    parts = [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)]
    return f"({', '.join(part for part in parts if 'init=False' not in part)})"


def _annotation(node: ast.expr | None) -> str:
    """A type; one in quotes, because it is defined further below, without them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node) if node is not None else ""


# --- docstrings -------------------------------------------------------------------------------------------------------


def restructured(text: str) -> Iterator[str]:
    """A docstring's lines: code becomes code or a link, and what is indented is an example."""
    is_in_example = False
    for line in text.splitlines():
        if line.startswith("    "):
            if not is_in_example:
                yield from ("::", "")
            is_in_example = True
            yield line
            continue
        is_in_example = is_in_example and not line
        pieces = enumerate(_CODE.split(line))
        yield "".join(_code(piece) if number % 2 else _SPECIAL.sub(r"\\\g<0>", piece) for number, piece in pieces)


def _code(text: str) -> str:
    """A name of this reference as a link, everything else as it is."""
    first, _, rest = text.partition(".")
    if not re.fullmatch(r"[\w.]+", text) or first not in PLACES:
        return f"``{text}``"
    if rest and rest not in (listed_members(MEMBERS, PLACES[first], first) or [rest]):
        return f"``{text}``"
    return f":py:obj:`{text} <{PLACES[first]}.{text}>`"


# --- links ------------------------------------------------------------------------------------------------------------


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> nodes.Element | None:
    """A type of a signature, which has its short name there: a link if it is on this reference, else its text.

    A link of a docstring that leads nowhere is left alone, so that Sphinx warns of it.
    """
    if node.get("refdomain") != "py" or node["reftype"] == "obj":
        return None
    name = node["reftarget"].rpartition(".")[2]
    entry = env.domains.python_domain.objects.get(f"{PLACES.get(name, '')}.{name}")
    if entry is None:
        return content
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content)


def setup(app: Sphinx) -> dict[str, bool]:
    """The directive, and the types that Sphinx finds no target for."""
    app.add_directive("public-names", PublicNames)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
