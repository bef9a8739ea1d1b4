"""What is read of the cluster, in the user's name, for manifests that the running service is asked about.

The service watches neither ResourceClaimTemplates nor PriorityClasses, and may create no pods: what the manifests name
goes along with them, and so do the pods as a dry run of the API server leaves them.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from kscheduler.api.kinds import RESOURCE_CLAIM_TEMPLATES
from kscheduler.api.priority import PRIORITY_CLASSES_PATH, listed_classes
from kscheduler.cli.kubectl.new_pod_questions import PodManifest, Question, questions_about
from kscheduler.cli.kubectl.service import ServiceProxyClient
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.new_objects import admitted_pod, is_pod_group, makes_pods
from kscheduler.scenario.new_pods import new_pods
from kscheduler.scenario.object_files import Document
from kscheduler.simulate.requested_changes import NewObjects, classes_for, templates_in

Tree = dict[str, Any]


async def referenced_objects(
    new_objects: Sequence[NewObjects], namespace: str, proxy: ServiceProxyClient
) -> list[Tree]:
    """Templates and classes that the manifests name and do not bring, and the default class."""
    return [*await _templates(new_objects, namespace, proxy), *await _priority_classes(new_objects, proxy)]


async def _templates(new_objects: Sequence[NewObjects], namespace: str, proxy: ServiceProxyClient) -> list[Tree]:
    found = []
    for place, name in templates_in(new_objects, namespace):
        tree = await proxy.read(RESOURCE_CLAIM_TEMPLATES.object_path(quote(name, safe=""), quote(place, safe="")))
        if tree is not None and tree.get("kind") == RESOURCE_CLAIM_TEMPLATES.name:
            tree.get("metadata", {}).pop("managedFields", None)
            found.append(tree)
    return found


async def _priority_classes(new_objects: Sequence[NewObjects], proxy: ServiceProxyClient) -> list[Tree]:
    if not new_objects:
        return []
    return [*classes_for(new_objects, listed_classes(await proxy.read(PRIORITY_CLASSES_PATH)))]


async def explanation_requests(
    documents: Sequence[Document], namespace: str, notes: list[str], proxy: ServiceProxyClient
) -> list[Question]:
    """The bodies of `POST /explain`, each with some of the pods and all that comes with them. `notes`: gets more."""
    referenced = await referenced_objects([NewObjects("", tuple(documents))], namespace, proxy)
    groups = [document for document in documents if is_pod_group(document)]
    others = [document for document in documents if not (makes_pods(document) or is_pod_group(document))]
    makers: list[PodManifest] = []
    async with proxy.own_client() as client:
        for document in filter(makes_pods, documents):
            try:
                new = next(new_pods([document], namespace))
            except ScenarioError:
                makers.append(PodManifest(document, {}, None))  # the service says what is wrong with it
                continue
            makers.append(PodManifest(document, new.tree, await admitted_pod(client, new)))
            notes += new.notes

    def body(some: Sequence[PodManifest], their_groups: Sequence[Document]) -> Tree:
        sent = [*(maker.document for maker in some), *their_groups, *others]
        return {
            "namespace": namespace,
            "objects": _trees(sent) + referenced,
            "places": [document.where for document in sent],
            "admitted": [maker.admitted for maker in some],
        }

    return questions_about(makers, groups, namespace, body)


def _trees(documents: Iterable[Document]) -> list[Tree]:
    return [document.tree for document in documents]
