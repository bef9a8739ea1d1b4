"""Suggestions as programs get them, and applied to the JSON of a scenario."""

import jsonpatch
import msgspec

from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.suggestion_rules import suggested
from tests.explain.as_json import suggestion_trees
from tests.explain.suggestions.random_scenarios import Tree, decided


def applied(scenario: Tree, suggestion: Tree) -> Tree:
    """The scenario after a suggestion. Raises where a patch does not fit the JSON."""
    after: Tree = msgspec.json.decode(msgspec.json.encode(scenario))
    for change in suggestion["changes"]:
        own = after["pod"]["metadata"]["name"], after["pod"]["metadata"]["namespace"]
        if change["resource"] == "pods" and (change["name"], change["namespace"]) == own:
            after["pod"] = jsonpatch.apply_patch(after["pod"], change["patch"])
            continue
        listed = after["objects"][change["resource"]]
        found = [at for at, obj in enumerate(listed) if _is_named(obj, change)]
        if change.get("delete"):
            del listed[found[0]]
        elif found:
            listed[found[0]] = jsonpatch.apply_patch(listed[found[0]], change["patch"])
        else:
            listed.append(jsonpatch.apply_patch({}, change["patch"]))
    return after


def suggestions_for(scenario: Tree) -> list[Tree] | None:
    """As `-o json` prints them."""
    decision = decided(scenario)
    found = suggested(decision)
    return None if found is None else suggestion_trees(found, decision.scenario, NO_SITUATION)


def does_harm(suggestion: Tree) -> bool:
    """Whether it comes behind all others: bare pods go, or the pod is without the device that it asks for."""
    gives_up = any(
        "/" in step["facts"].get("resource", "") and step["facts"]["to"] == 0 for step in suggestion["steps"]
    )
    return gives_up or any(step["kind"] in ("deletePods", "releaseDevices") for step in suggestion["steps"])


def _is_named(obj: Tree, change: Tree) -> bool:
    metadata = obj["metadata"]
    return bool((metadata["name"], metadata.get("namespace", "")) == (change["name"], change["namespace"]))
