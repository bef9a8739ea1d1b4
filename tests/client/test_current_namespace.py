"""The namespace that kubectl would take."""

from pathlib import Path

import pytest
import yaml

from kscheduler.client.access.connection import current_namespace
from kscheduler.client.errors import ConfigurationError

CLUSTER = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
CONTEXTS = [
    {"name": "shop", "context": {"cluster": "c", "namespace": "shop"}},
    {"name": "plain", "context": {"cluster": "c"}},
]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "config"
    tree = {"clusters": [CLUSTER], "contexts": CONTEXTS, "users": [], "current-context": "shop"}
    path.write_text(yaml.safe_dump(tree))
    return str(path)


@pytest.mark.parametrize(
    ("context", "namespace"), [("", "shop"), ("plain", "default"), ("shop", "shop")], ids=["current", "none", "named"]
)
def test_it_is_that_of_the_context(kubeconfig: str, context: str, namespace: str) -> None:
    assert current_namespace(kubeconfig=kubeconfig, context=context) == namespace
    assert current_namespace(context=context, environ={"KUBECONFIG": kubeconfig}) == namespace


def test_a_context_that_does_not_exist_is_named(kubeconfig: str) -> None:
    with pytest.raises(ConfigurationError, match="'none'"):
        current_namespace(kubeconfig=kubeconfig, context="none")


def test_without_a_kubeconfig_it_is_default() -> None:
    assert current_namespace(environ={}) == "default"
    assert current_namespace(master="http://127.0.0.1:1", environ={}) == "default"
