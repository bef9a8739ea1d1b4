"""The form of an answer: the plain object, a Table, or only the metadata.

kubectl accepts `application/json;as=Table;v=v1;g=meta.k8s.io,application/json`; the first form that this server can
make wins. Anything but JSON is ignored: protobuf and CBOR clients accept JSON as well.
"""

from enum import Enum

from kscheduler.api.machinery.api_errors import ApiError

DISCOVERY_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class AnswerForm(Enum):
    """The forms in which objects are sent."""

    PLAIN = "plain"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


_FORMS = {
    "Table": AnswerForm.TABLE,
    "PartialObjectMetadata": AnswerForm.METADATA,
    "PartialObjectMetadataList": AnswerForm.METADATA,
    "": AnswerForm.PLAIN,
}
_PLAIN_TYPES = frozenset({"", "*/*", "application/json"})
# What a real server names; this one answers in JSON, which every client of it reads.
_SERVED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


def form_of(accept: str, *, of_list: bool = False) -> AnswerForm:
    """The first acceptable form. Raises 406 if the client does not accept JSON, in the words for lists or objects."""
    if accept in _PLAIN_TYPES:
        return AnswerForm.PLAIN
    clauses = _clauses(accept)
    for media_type, parameters in clauses:
        form = _FORMS.get(parameters.get("as", ""))
        if media_type in _PLAIN_TYPES and form is not None and parameters.get("v", "v1") == "v1":
            return form
    if any(media_type in _PLAIN_TYPES for media_type, _ in clauses):
        raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(_SERVED)}")
    streams = [f"{kind};stream=watch" for kind in _SERVED if kind != "application/yaml"] if of_list else []
    available = ", ".join([*_SERVED, *streams])
    raise ApiError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {available}")


def wants_aggregated_discovery(accept: str) -> bool:
    """Whether the client prefers a single document to a request per group."""
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
