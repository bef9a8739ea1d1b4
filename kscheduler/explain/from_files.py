"""Questions from files: scenarios, each with its own cluster; or the objects of one cluster and pods in it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from kscheduler.api.core import Pod
from kscheduler.explain.as_if import locally_defaulted, question_about_new
from kscheduler.explain.question import Question, question_about
from kscheduler.explain.serving import Serving
from kscheduler.whatif.manifests import DefaultPod, Manifests, sorted_out
from kscheduler.whatif.new_pods import NewPod, new_pods
from kscheduler.whatif.scenario import Document, Scenario, ScenarioError, read_source


@dataclass(frozen=True, slots=True)
class Asked:
    """Which pods of a cluster are meant; neither: all that are pending."""

    namespace: str = "default"
    name: str = ""
    manifest: str = ""
    """A file with pods that do not exist yet; `-` is standard input."""
    is_about_a_cluster: bool = False
    """Whether something was said that scenarios, which bring pod and configuration, have no use for."""


def questions_from(path: str, asked: Asked, served: Serving, default_pod: DefaultPod) -> Iterator[Question]:
    """The questions of a file, one after another. Raises `ScenarioError` at the first that cannot be read."""
    source = read_source(path)
    first = next(source, None)
    if first is None:
        return
    if isinstance(first, Scenario):
        if asked.is_about_a_cluster:
            raise ScenarioError(
                f"{first.where}: scenarios bring their pod and configuration: a POD, -n, -f, --config and "
                "--scheduler-name go with a file of Kubernetes objects"
            )
        for scenario in chain([first], source):
            if isinstance(scenario, Document):
                raise ScenarioError(f"{scenario.where}: a Kubernetes object among scenarios")
            yield Question(scenario, notes=scenario.notes)
        return
    documents = [first, *(one for one in source if isinstance(one, Document))]
    yield from _in_cluster(sorted_out(documents, default_pod), path, asked, served, default_pod)


def _in_cluster(
    found: Manifests, path: str, asked: Asked, served: Serving, default_pod: DefaultPod
) -> Iterator[Question]:
    found.pass_over_others()
    objects, notes = found.cluster(), tuple(found.notes)
    if asked.manifest:
        news, besides = read_new_pods(asked.manifest, asked.namespace, default_pod)
        besides.priority_classes |= {**found.priority_classes, **besides.priority_classes}
        for new in news:
            pod = locally_defaulted(new, besides, default_pod)
            question = question_about_new(new, pod, objects, besides, served, default_pod)
            yield Question(question.scenario, question.situation, (*notes, *question.notes))
        return
    for pod in _meant(objects.pods, path, asked):
        yield question_about(pod, objects, served, path, notes)


def _meant(pods: tuple[Pod, ...], path: str, asked: Asked) -> list[Pod]:
    if asked.name:
        key = f"{asked.namespace}/{asked.name}"
        named = [pod for pod in pods if pod.key == key]
        if not named:
            raise ScenarioError(f"{path}: there is no pod {key} among its {len(pods)} pods")
        return named
    pending = [pod for pod in pods if not pod.spec.node_name and not pod.is_terminal]
    if not pending:
        raise ScenarioError(f"{path}: none of its {len(pods)} pods is pending; name one, or give one with -f")
    return pending


def read_new_pods(path: str, namespace: str, default_pod: DefaultPod) -> tuple[list[NewPod], Manifests]:
    """The pods of a file that do not exist yet, and its other objects. Raises `ScenarioError`."""
    documents: list[Document] = []
    for one in read_source(path):
        if isinstance(one, Scenario):
            raise ScenarioError(f"{one.where}: a scenario where a Kubernetes object was expected: use --from")
        documents.append(one)
    news = list(new_pods(documents, namespace))
    if not news:
        kinds = sorted({str(one.tree.get("kind")) for one in documents})
        raise ScenarioError(f"{path}: no pod and nothing that makes pods, only {', '.join(kinds) or 'an empty file'}")
    return news, sorted_out([one for one in documents if one.tree.get("kind") != "Pod"], default_pod)
