"""CustomResourceDefinitions: what they define is served at once, and goes with them.

Objects of defined kinds are stored as they are: no schemas, no defaults, no conversion but the version's name, no
controllers. So charts with a `crds` folder can be installed, and schedulers that read kinds of their own tried out.
"""

from kscheduler.simulation.kinds.api_errors import FieldCause, Object, invalid
from kscheduler.simulation.kinds.field_rules import bad_value, required


def establish(definition: Object, now: str) -> None:
    """Fill in what a new or changed definition does not say, and its status: its names are accepted at once.

    Raises 422 where it lacks what its kinds are made of.
    """
    spec = definition.get("spec") or {}
    causes = _wrong(definition["metadata"]["name"], spec)
    if causes:
        raise invalid("CustomResourceDefinition", "apiextensions.k8s.io", definition["metadata"]["name"], causes)
    names = spec["names"] = dict(spec["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    since = {"lastTransitionTime": now, "status": "True"}
    known = (definition.get("status") or {}).get("conditions")
    definition["status"] = {
        "acceptedNames": names,
        "conditions": known
        or [
            {**since, "type": "NamesAccepted", "reason": "NoConflicts", "message": "no conflicts found"},
            {
                **since,
                "type": "Established",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "storedVersions": [version["name"] for version in spec["versions"] if version.get("storage")],
    }


def _wrong(name: str, spec: Object) -> list[FieldCause]:
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    causes = [required(f"spec.{field}") for field in ("group", "scope") if not spec.get(field)]
    causes += [required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)]
    if not causes and name != f"{names['plural']}.{spec['group']}":
        causes.append(bad_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(bad_value("spec.versions", versions, text))
    return causes
