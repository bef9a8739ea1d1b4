"""What is published about our answers, made from their structs: JSON Schemas, and components of the OpenAPI page.

    python -m kscheduler.server.pages.published explanation > kscheduler/explain/explanation.schema.json
    python -m kscheduler.server.pages.published simulation > kscheduler/simulate/simulation.schema.json
    python -m kscheduler.server.pages.published compaction > kscheduler/compact/compaction.schema.json
    python -m kscheduler.server.pages.published replay > kscheduler/recorder/report/replay.schema.json
    python -m kscheduler.server.pages.published openapi > kscheduler/server/pages/answers.openapi.json

The files are in the repository so that a change of what is published is seen; a test tells when they are stale.
"""

import sys
from typing import Any, Final

import msgspec

from kscheduler.answers.pending_in_queue import PendingInQueue
from kscheduler.answers.schema import IN_OPENAPI
from kscheduler.compact.compaction_result import compaction_schema
from kscheduler.explain.answer import PodExplanation
from kscheduler.explain.cluster_answers import NodeUses
from kscheduler.explain.group_answer import ExplanationList, PodGroupExplanation
from kscheduler.explain.queries.new_pods_request import NewPodsRequest
from kscheduler.explain.schema import explain_definitions, explanation_schema
from kscheduler.recorder.report.answers import replay_schema
from kscheduler.server.pages.zpages import BuildVersion, PathIndex
from kscheduler.server.waiting_pods import PermitAnswer, PermitRefusal, PermitVerdict, WaitingPodList
from kscheduler.simulate.from_request import SimulationRequest
from kscheduler.simulate.simulation_result import Simulation, simulation_schema

Tree = dict[str, Any]

_STRUCTS: Final = (
    *(PodExplanation, PodGroupExplanation, ExplanationList, NodeUses, NewPodsRequest),
    *(PendingInQueue, Simulation, SimulationRequest),
    *(PathIndex, BuildVersion, WaitingPodList, PermitVerdict, PermitAnswer, PermitRefusal),
)


def openapi_schemas() -> Tree:
    """The answers, and the requests that have a body, as components of an OpenAPI description."""
    found = explain_definitions(_STRUCTS, IN_OPENAPI)
    request = found.pop("NewPodsRequest")
    del request["properties"]["objects"]["default"]
    found["ExplanationRequest"] = {**request, "title": "ExplanationRequest", "required": ["objects"]}
    either = [{"$ref": f"{IN_OPENAPI}{name}"} for name in ("PodExplanation", "PodGroupExplanation")]
    found["Explanation"] = {"description": "Of a pod, or of the pod group that it waits with.", "anyOf": either}
    found["ExplanationList"]["properties"]["items"]["items"] = {"$ref": f"{IN_OPENAPI}Explanation"}
    return dict(sorted(found.items()))


# By its name, where a file is below `kscheduler`, and what makes it.
PUBLISHED: Final = {
    "explanation": ("explain/explanation.schema.json", explanation_schema),
    "simulation": ("simulate/simulation.schema.json", simulation_schema),
    "compaction": ("compact/compaction.schema.json", compaction_schema),
    "replay": ("recorder/report/replay.schema.json", replay_schema),
    "openapi": ("server/pages/answers.openapi.json", openapi_schemas),
}


def main(arguments: list[str]) -> int:
    """Print one of the files."""
    if len(arguments) != 1 or arguments[0] not in PUBLISHED:
        sys.stderr.write(f"usage: python -m kscheduler.server.pages.published {'|'.join(PUBLISHED)}\n")
        return 2
    _, make = PUBLISHED[arguments[0]]
    sys.stdout.write(f"{msgspec.json.format(msgspec.json.encode(make()), indent=2).decode()}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
