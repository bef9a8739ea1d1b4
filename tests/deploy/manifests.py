"""Plain manifests and the bases of the Kustomize overlays are the chart, rendered: `python -m tests.deploy.manifests`.

What only Helm needs is left out: its test pod, and the labels that say who manages an object. Comments stay. Next to
that this writes what else is made from one source: the dashboard, the chart's README, the descriptions in its schema
and the table of feature gates by which it judges its own.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import ALL_OF_A_STAGE, NOT_BUILT, gates_of, parse_feature_gates
from tests.deploy import dashboard, helm, values_table

DEPLOY: Final = helm.ROOT / "deploy"
VALUE_SETS: Final = helm.CHART / "ci"
GATES: Final = helm.CHART / "files" / "feature-gates.json"
HELMS_OWN: Final = ("helm.sh/chart:", "app.kubernetes.io/managed-by:")

HEAD: Final = """\
---
# kubectl apply --filename deploy/kscheduler.yaml
#
# The chart in deploy/helm/kscheduler with its defaults, rendered by `make manifests`; change it there.
# The image is `kscheduler:{version}`: deploy/kustomize says how to name the one that you have pushed.
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
  labels:
    app.kubernetes.io/name: kscheduler
    app.kubernetes.io/part-of: kscheduler
    # The API server itself refuses any pod here that asks for more than the restricted profile allows.
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/enforce-version: latest
"""
ADDED: Final = """\
---
# What `helm template --values deploy/helm/kscheduler/ci/monitoring.yaml` has besides; rendered by `make manifests`.
"""
REPLACING: Final = """\
---
# What `helm template --namespace kube-system --values deploy/helm/kscheduler/ci/replace.yaml` prints; rendered by
# `make manifests`.
"""
# Of its own: what selects the pods of a scheduler beside it must not find this one.
SHADOW_RELEASE: Final = "kscheduler-shadow"
SHADOW: Final = """\
---
# What `helm template kscheduler-shadow --values deploy/helm/kscheduler/ci/shadow.yaml` prints, and its namespace;
# rendered by `make manifests`. Decides nothing and may write nothing: docs/shadow.md.
apiVersion: v1
"""


def documents(rendered: str) -> list[str]:
    """The documents of what Helm prints, as text, without hooks and without what is Helm's own."""
    found = []
    for part in re.split(r"^---\n", rendered, flags=re.MULTILINE):
        lines = [line for line in part.splitlines() if not line.strip().startswith((*HELMS_OWN, "# Source: "))]
        text = "".join(f"{line}\n" for line in lines if line.strip())
        tree = yaml.safe_load(text)
        if tree and "helm.sh/hook" not in tree["metadata"].get("annotations", {}):
            found.append(text)
    return found


def joined(head: str, parts: Iterable[str]) -> str:
    return head + "".join(f"---\n{part}" for part in parts)


def plain() -> str:
    """deploy/kscheduler.yaml."""
    version = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())["appVersion"]
    return joined(HEAD.format(version=version, namespace=helm.NAMESPACE), documents(helm.render()))


def monitoring() -> str:
    """What the monitoring value set adds."""
    base = set(documents(helm.render()))
    added = [text for text in documents(helm.render(VALUE_SETS / "monitoring.yaml")) if text not in base]
    first, *others = added
    return joined(ADDED + first, others)


def in_place_of_kube_scheduler() -> str:
    """The value set `replace`, in kube-scheduler's namespace. Kustomize would give FlowSchemas a namespace too."""
    rendered = helm.render(VALUE_SETS / "replace.yaml", namespace="kube-system")
    first, *others = documents(rendered)
    return joined(REPLACING + first, others)


def shadow() -> str:
    """The value set `shadow`, with its namespace."""
    rendered = helm.render(VALUE_SETS / "shadow.yaml", release=SHADOW_RELEASE)
    head = SHADOW + HEAD.partition("apiVersion: v1\n")[2].format(namespace=helm.NAMESPACE)
    return joined(head, documents(rendered))


def feature_gates() -> str:
    """The gates of each version of Kubernetes that is followed, with what the chart judges by, a line each.

    `all`: the gate that switches it together with others of its stage. Nothing is said of what is as with most.
    """
    versions = {}
    for version in BEHAVIOURS:
        switched = parse_feature_gates(",".join(f"{name}=true" for name in ALL_OF_A_STAGE), version=version).chosen
        of_stage = {stage: name for name, stage in ALL_OF_A_STAGE.items()}
        reported: dict[str, dict[str, object]] = {name: {} for name in ALL_OF_A_STAGE} | {
            gate.name: {
                "default": gate.default,
                "locked": gate.locked,
                "needs": gate.needs,
                "all": of_stage.get(gate.stage) if switched.get(gate.name) else None,
                "notBuilt": NOT_BUILT[version].get(gate.name),
            }
            for gate in gates_of(version).values()
        }
        short = {name: {key: value for key, value in reported[name].items() if value} for name in sorted(reported)}
        versions[version] = ",\n".join(f'    "{name}": {json.dumps(gate)}' for name, gate in short.items())
    return "{\n" + ",\n".join(f'  "{version}": {{\n{lines}\n  }}' for version, lines in versions.items()) + "\n}\n"


def files() -> dict[Path, str]:
    """Every file that is made from another one, with what it should say."""
    source = values_table.VALUES.read_text()
    manifest = plain()
    return {
        DEPLOY / "kscheduler.yaml": manifest,
        # Kustomize reads nothing outside of a base's folder, so that the base has a copy.
        DEPLOY / "kustomize" / "base" / "kscheduler.yaml": manifest,
        DEPLOY / "kustomize" / "monitoring" / "monitoring.yaml": monitoring(),
        DEPLOY / "kustomize" / "replace" / "kscheduler.yaml": in_place_of_kube_scheduler(),
        DEPLOY / "kustomize" / "shadow" / "kscheduler.yaml": shadow(),
        dashboard.PATH: dashboard.text(),
        GATES: feature_gates(),
        values_table.DEFAULTS: values_table.defaults(source),
        values_table.README: values_table.readme(values_table.README.read_text(), source),
        values_table.SCHEMA: values_table.schema_text(values_table.SCHEMA.read_text(), source),
    }


def write() -> None:
    """Write them all. First what the chart carries or asks for when it is rendered: the dashboard, the gates."""
    dashboard.PATH.write_text(dashboard.text())
    GATES.write_text(feature_gates())
    values_table.DEFAULTS.write_text(values_table.defaults(values_table.VALUES.read_text()))
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    write()
