"""What a copy of the process answers to questions of HTTP: called in the copy, imported with the first question.

`as_of` is when the copy was made, in seconds of the wall clock. Each returns the status of HTTP, a line end and the
body; what is wrong with the question is a sentence of text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Final

import msgspec
import numpy.ma  # noqa: F401  `np.unique` imports it when it is first called: each copy would do so again

from kscheduler.answers import whose_rules
from kscheduler.api.groups import GROUP_PREFIXES
from kscheduler.api.priority import classes_of
from kscheduler.explain.explanation import Explanation, answered
from kscheduler.explain.group_answer import ExplanationList
from kscheduler.explain.node_use import node_uses
from kscheduler.explain.queries.explain_query import (
    ExplainQuery,
    GroupExplainQuery,
    query_about_group,
    with_claim_templates,
)
from kscheduler.explain.queries.named_groups import member_to_explain, members_of, no_member
from kscheduler.explain.queries.new_groups import ClusterGroups
from kscheduler.explain.queries.new_pods_request import queries_of_request, read_new_pods_request
from kscheduler.explain.queries.running_scheduler import WHERE
from kscheduler.explain.suggestions.search_time import SharedTime
from kscheduler.scenario.errors import ScenarioError
from kscheduler.server.pages.query_pages import POD_GROUP
from kscheduler.service.asking.helping_changes import changes_by_reason
from kscheduler.service.asking.live_state import hold, live_objects, live_pod, running_about, running_scheduler
from kscheduler.service.parts import Parts
from kscheduler.simulate.from_request import read_request, requested_changes_of, serving_of_request
from kscheduler.simulate.planning import planned
from kscheduler.simulate.run_simulation import run_simulation
from kscheduler.simulate.simulation_plan import HeldCluster
from kscheduler.text import json_line

# Of the deadline of a copy (`CopyLimits.seconds`): the rest is for the answer, on a machine that is busy.
PLAY_SECONDS: Final = 6.0
# An answer that took longer says as of when it is.
_REPORTED_AGE_SECONDS: Final = 1.0
_OK: Final = 200
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_UNPROCESSABLE: Final = 422


def explain(
    parts: Parts,
    as_of: float,
    *,
    pod_key: str,
    against_node: str,
    leads: bool,
    as_text: bool,
    with_suggestions: bool,
) -> bytes:
    """Where a pod goes and why, as `kscheduler explain` says it.

    `pod_key`: as `server.pages.query_pages.QueryService.explain` has it.
    """
    namespace, _, name = pod_key.partition("/")
    of_group = name.startswith(f"{POD_GROUP}/")
    if of_group:
        group = name.removeprefix(f"{POD_GROUP}/")
        pod = member_to_explain(members_of(live_objects(parts).pods, namespace, group))
        if pod is None:
            return _explain_without_members(parts, as_of, namespace, group, leads=leads, as_text=as_text)
        pod_key = pod.key
    else:
        pod = live_pod(parts, namespace, name)
    if pod is None:
        hint = f"; of a pod group: podGroup=NAMESPACE/{name}" if namespace in GROUP_PREFIXES else ""
        return _response(_NOT_FOUND, f"the service knows no pod {pod_key}{hint}")
    running = running_about(parts, pod, as_of, leads=leads, of_group=of_group)
    if against_node and not running.cache.has_node(against_node):
        return _response(_NOT_FOUND, f"the service knows no node {against_node}")
    query = running.query(pod, of_group=of_group)
    if isinstance(query, ExplainQuery):
        query = with_claim_templates(query, parts.claim_templates.get(pod.key, {}))
    if against_node and isinstance(query, GroupExplainQuery):
        return _response(
            _UNPROCESSABLE, f"{pod_key} is decided with its pod group: nodes of one member are not compared"
        )
    try:
        explanation = answered(
            query, running.decide(query), against_node=against_node, with_suggestions=with_suggestions
        )
    except ScenarioError as problem:
        return _response(_UNPROCESSABLE, str(problem))
    return _explained(explanation, parts, as_of, as_text=as_text)


def _explain_without_members(
    parts: Parts, as_of: float, namespace: str, group: str, *, leads: bool, as_text: bool
) -> bytes:
    """Of a group that exists and that no pod of the service's names: those that have ended are not kept."""
    running = running_scheduler(parts, as_of, leads=leads)
    keys = (each.key for each in running.groups if each.key.text == f"{namespace}/{group}")
    key = next(keys, None)
    if key is None:
        return _response(
            _NOT_FOUND, f"the service knows no pod group {namespace}/{group}: {no_member(namespace, group)}"
        )
    query = query_about_group(key, running.objects, running.groups, running.served, WHERE)
    return _explained(answered(query, query.decide()), parts, as_of, as_text=as_text)


def explain_new(parts: Parts, as_of: float, *, body: bytes, leads: bool, as_text: bool) -> bytes:
    """Where pods that do not exist yet would go, as `kscheduler explain -f` says it."""
    try:
        request = read_new_pods_request(body)
        running = running_scheduler(parts, as_of, leads=leads)
        if request.against and not running.cache.has_node(request.against):
            return _response(_NOT_FOUND, f"the service knows no node {request.against}")
        groups = ClusterGroups(running.groups, running.missing_groups, running.awaited_topologies)
        classes = classes_of(running.objects.pods)
        queries = queries_of_request(request, running.objects, running.served, classes, groups)
        times, answers = SharedTime(len(queries)), []
        for query in queries:
            if isinstance(query, ExplainQuery):  # a group is judged over a cache of its own
                hold(parts, running.objects, query.scenario.objects)
            decision = running.decide(query)
            time = times.part()
            answers.append(
                answered(
                    query,
                    decision,
                    against_node=request.against,
                    with_suggestions=request.suggestions,
                    time=time,
                )
            )
    except ScenarioError as problem:
        return _response(_BAD_REQUEST, str(problem))
    aged = [replace(each, notes=(*each.notes, *_notes(parts, as_of))) for each in answers]
    if as_text:
        return _response(_OK, _text_of(aged))
    return _response(_OK, f"{json_line(ExplanationList(items=tuple(each.answer for each in aged)))}\n")


def _explained(explanation: Explanation, parts: Parts, as_of: float, *, as_text: bool) -> bytes:
    explanation = replace(explanation, notes=(*explanation.notes, *_notes(parts, as_of)))
    return _response(_OK, _text_of([explanation]) if as_text else f"{json_line(explanation.answer)}\n")


def _text_of(answers: Sequence[Explanation]) -> str:
    """The texts, by whose rules they were decided, and each note once."""
    rules = dict.fromkeys(whose_rules(each.emulation_version) for each in answers)
    notes = dict.fromkeys(note for each in answers for note in each.notes)
    lines = "".join([*(f"\n{each}\n" for each in rules), *(f"note: {note}\n" for note in notes)])
    texts = "\n\n".join(each.as_text() for each in answers)
    return f"{texts}\n{lines}"


def nodes(parts: Parts, as_of: float) -> bytes:
    """How full each node is, and which waiting pods it has rejected."""
    assembly = parts.assembly
    pods, notes = live_objects(parts).pods, _notes(parts, as_of)
    uses = node_uses(assembly.cache, assembly.profiles, pods, assembly.config.gates.version, notes)
    return _response(_OK, f"{json_line(uses)}\n")


def helping_changes(parts: Parts, as_of: float, *, reasons: Sequence[Sequence[str]]) -> bytes:
    """The change that frees most pods of each reason, by the key of its first pod: as on the status page."""
    del as_of
    return _response(_OK, json_line(changes_by_reason(parts, reasons)))


def simulate(parts: Parts, as_of: float, *, body: bytes) -> bytes:
    """What would happen if, as `kscheduler simulate -o json` says it."""
    began = perf_counter()
    try:
        request = read_request(body)
        running = running_scheduler(parts, as_of, leads=True, in_order=True)
        requested_changes = requested_changes_of(request, (node.metadata.name for node in running.objects.nodes))
        served = serving_of_request(request, running.served)
        cluster = HeldCluster(running.cache, running.objects)
        seconds = PLAY_SECONDS - (perf_counter() - began)
        plan, notes = planned(
            requested_changes, running.objects, running.groups, served, WHERE, running=cluster, seconds=seconds
        )
        simulation = run_simulation(plan)
    except ScenarioError as problem:
        return _response(_BAD_REQUEST, str(problem))
    every_note = (*notes, *_notes(parts, as_of), *simulation.notes)
    return _response(_OK, f"{json_line(msgspec.structs.replace(simulation, notes=every_note))}\n")


def _notes(parts: Parts, as_of: float) -> Iterator[str]:
    """What holds of each answer: the rules are not those of the API server's version, the answer is old."""
    if parts.server_version.not_followed:
        yield f"the API server runs {'; '.join(parts.server_version.not_followed.splitlines())}"
    age_seconds = parts.clock.time() - as_of
    if age_seconds > _REPORTED_AGE_SECONDS:
        at = datetime.fromtimestamp(as_of, UTC).strftime("%H:%M:%SZ")
        yield f"as of {at}, {age_seconds:.0f} s before this answer"


def _response(status: int, text: str) -> bytes:
    return f"{status}\n{text}".encode(errors="backslashreplace")
