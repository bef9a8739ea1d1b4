"""Templates of claims, for questions: nobody watches them, since no decision reads them.

The problem: a claim that was made from a template comes back as the template says when its pod is made again, so what
would help such a pod is a change of the template. Only anyone who reads it can say which. The idea: it is fetched when
somebody asks about a pod that names one, by this process; the copy that answers (`live_copies`) may open no connection.

What may not be read, or does not come in time, counts as unknown: then no change of a template is suggested.
"""

import asyncio
import importlib
from collections.abc import Mapping
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import PODS
from kscheduler.server.pages.query_pages import QueryResponse
from kscheduler.service.asking.live_queries import LiveQueries
from kscheduler.service.parts import Parts

# Of a pod, that are fetched.
MAX_TEMPLATES: Final = 8
FETCH_SECONDS: Final = 2.0
_CODE: Final = "kscheduler.explain.queries.live"


class LiveQueriesWithTemplates(LiveQueries):
    """Fetches the templates that a pod names before it is asked about."""

    async def explain(self, pod_key: str, against_node: str, *, as_text: bool, with_suggestions: bool) -> QueryResponse:
        """Where a pod goes and why."""
        pod: Pod | None = self._parts.informers.informer(PODS).store.get(pod_key)
        if with_suggestions and pod is not None and not pod.spec.node_name and names_templates(pod):
            self._parts.claim_templates[pod_key] = await _fetched(self._parts, pod)
        return await super().explain(pod_key, against_node, as_text=as_text, with_suggestions=with_suggestions)


def names_templates(pod: Pod) -> bool:
    """Whether a claim of the pod is made from a template."""
    return any(entry.resource_claim_template_name for entry in pod.spec.resource_claims)


async def _fetched(parts: Parts, pod: Pod) -> Mapping[str, ResourceClaimTemplate | None]:
    """By name; `None` for one that does not exist. Those that cannot be read are not there."""
    code = await asyncio.to_thread(importlib.import_module, _CODE)  # rarely needed, and large
    found: dict[str, ResourceClaimTemplate | None] = await code.known_claim_templates(
        parts.client, pod, MAX_TEMPLATES, FETCH_SECONDS
    )
    return found
