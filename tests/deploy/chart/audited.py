"""What a scheduler's user has asked of the API server, by its audit log, beside what it has been granted."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.controlplane.rest import Api, Object

ACCOUNT: Final = "system:serviceaccount:kscheduler-system:kscheduler"
POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["{user}"]
  - level: None
"""


@dataclass(frozen=True, order=True)
class Right:
    """A verb on a resource (`pods/binding`) of an API group; `name` where the rule names one."""

    group: str
    resource: str
    verb: str
    name: str = ""


def options(folder: Path, user: str = ACCOUNT) -> tuple[str, ...]:
    """Flags of kube-apiserver that write the log of one user's requests."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(POLICY.format(user=user))
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-mode=blocking-strict",
    )


def requests(folder: Path) -> list[Object]:
    """Every request of the user that was answered, or whose stream has begun."""
    return [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]


def refused(folder: Path) -> set[str]:
    """Requests that were answered 403, by verb and URL."""
    return {
        f"{one['verb']} {one['requestURI']}"
        for one in requests(folder)
        if one.get("responseStatus", {}).get("code") == 403
    }


def used(folder: Path) -> set[Right]:
    """What was asked for and allowed; with the object's name and without."""
    found = set()
    for one in requests(folder):
        reference = one.get("objectRef")
        if reference and one.get("annotations", {}).get("authorization.k8s.io/decision") == "allow":
            resource = "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
            for name in ("", reference.get("name", "")):
                found.add(Right(reference.get("apiGroup", ""), resource, one["verb"], name))
    return found


def granted(api: Api, release: str) -> set[Right]:
    """What the roles of a release allow that concerns resources."""
    chosen = {"labelSelector": f"app.kubernetes.io/instance={release}"}
    path = "/apis/rbac.authorization.k8s.io/v1"
    roles = api.items(f"{path}/clusterroles", **chosen) + api.items(f"{path}/roles", **chosen)
    return set(rights(rule for role in roles for rule in role["rules"] if "resources" in rule))


def rights(rules: Iterable[Object]) -> Iterable[Right]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(group, resource, verb, name)
