"""Changes of a cluster as flags spell them. Each function raises `ScenarioError` for a text that it cannot read."""

import re
from typing import Final

from kscheduler.api.core import Taint
from kscheduler.whatif.files import ScenarioError
from kscheduler.whatif.rehearsal.wished_nodes import MoreNodes, NodeEdit

_COUNT: Final = re.compile(r"[0-9]{1,100}")
_TAINT: Final = re.compile(r"(?P<key>[^=:-][^=:]*?)(=(?P<value>[^:]*))?:(?P<effect>[A-Za-z]+)(?P<removes>-?)")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def more_nodes(text: str) -> MoreNodes:
    """`COUNT:NODE`."""
    count, colon, like = text.partition(":")
    if not (colon and like and _COUNT.fullmatch(count) and int(count)):
        raise ScenarioError(f"--add-nodes {text}: COUNT:NODE was expected, such as 3:node-7")
    return MoreNodes(int(count), like)


def labelled(text: str) -> NodeEdit:
    """`NODE:KEY=VALUE` or `NODE:KEY-`."""
    node, colon, label = text.partition(":")
    key, equals, value = label.partition("=")
    if not (node and colon and key) or (not equals and not key.endswith("-")):
        raise ScenarioError(f"--label-node {text}: NODE:KEY=VALUE or NODE:KEY- was expected")
    return NodeEdit(node, labels={key: value} if equals else {key.removesuffix("-"): None})


def tainted(text: str) -> NodeEdit:
    """`NODE:KEY=VALUE:EFFECT`, with a minus sign at its end to take it away."""
    node, colon, taint = text.partition(":")
    found = _TAINT.fullmatch(taint)
    if not (node and colon) or found is None or found["effect"] not in EFFECTS:
        effects = ", ".join(EFFECTS)
        raise ScenarioError(f"--taint-node {text}: NODE:KEY=VALUE:EFFECT was expected, with one of {effects}")
    chosen = Taint(key=found["key"], value=found["value"] or "", effect=found["effect"])
    return NodeEdit(node, taint=chosen, removes_taint=bool(found["removes"]))
