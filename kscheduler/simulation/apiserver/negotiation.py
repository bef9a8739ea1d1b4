"""Which form of an answer a client wants: the plain object, a Table, or only the metadata.

kubectl asks for `application/json;as=Table;v=v1;g=meta.k8s.io,application/json`; the first form that this server can
make wins. Anything but JSON is passed over, as protobuf and CBOR clients name JSON as their last resort.
"""

from enum import Enum

from kscheduler.simulation.kinds.api_errors import ApiError

DISCOVERY_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class AnswerForm(Enum):
    """What objects are turned into before they are sent."""

    PLAIN = "plain"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


_FORMS = {
    "Table": AnswerForm.TABLE,
    "PartialObjectMetadata": AnswerForm.METADATA,
    "PartialObjectMetadataList": AnswerForm.METADATA,
    "": AnswerForm.PLAIN,
}
_PLAIN_TYPES = frozenset({"", "*/*", "application/*", "application/json"})


def form_of(accept: str) -> AnswerForm:
    """The first acceptable form. Raises 406 when the client accepts no JSON at all."""
    if accept in _PLAIN_TYPES:
        return AnswerForm.PLAIN
    for media_type, parameters in _clauses(accept):
        form = _FORMS.get(parameters.get("as", ""))
        if media_type in _PLAIN_TYPES and form is not None and parameters.get("v", "v1") == "v1":
            return form
    message = "only the following media types are accepted: application/json"
    raise ApiError(406, "NotAcceptable", message)


def wants_aggregated_discovery(accept: str) -> bool:
    """Whether the client prefers one document over a request per group."""
    for media_type, parameters in _clauses(accept):
        if media_type not in _PLAIN_TYPES:
            continue
        if parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("v") == "v2":
            return True
        if "as" not in parameters:
            return False
    return False


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    clauses = []
    for clause in accept.split(","):
        media_type, *pairs = (part.strip() for part in clause.split(";"))
        parameters = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        clauses.append((media_type, parameters))
    return clauses
