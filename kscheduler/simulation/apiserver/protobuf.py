r"""Protobuf request bodies of the few types that kubectl's typed commands send, turned into plain objects.

`kubectl create namespace` and its siblings (kubectl 1.32 and later) send protobuf and have no fallback. The format is
an envelope, `k8s\0` and an `Unknown` message with the type and the raw bytes; what these mean is a table of field
numbers per message (`protobuf_types`). Go writes zero values of plain fields too; they are dropped here as JSON's
`omitempty` would, except for fields that the table marks as pointers.

Limits: decoding only, and only what the tables name; anything else is refused, never half read.
"""

from collections.abc import Iterator
from typing import Any

from kscheduler.simulation.apiserver.protobuf_types import KINDS, Field, Message, Shape
from kscheduler.simulation.objects.api_errors import ApiError, Object, bad_request, unsupported_media_type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def decode(body: bytes) -> Object:
    """The object in a protobuf body. Raises 400 or 415."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body does not begin with the protobuf envelope of Kubernetes")
    try:
        return _decode_envelope(body[len(_MAGIC) :])
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body is cut short or damaged: {error}") from error


def _decode_envelope(body: bytes) -> Object:
    parts = {number: value for number, _, value in _fields(body) if isinstance(value, bytes)}
    meta = {number: value.decode() for number, _, value in _fields(parts.get(1, b"")) if isinstance(value, bytes)}
    group_version, kind = meta.get(1, ""), meta.get(2, "")
    message = KINDS.get(kind)
    if message is None:
        raise _refusal(f"{kind} objects are not read from protobuf here")
    return {"apiVersion": group_version, "kind": kind, **_decode_message(parts.get(2, b""), message, kind)}


def _refusal(why: str) -> ApiError:
    error = unsupported_media_type(MEDIA_TYPE, ("application/json", "application/yaml"))
    return ApiError(error.code, error.reason, f"{error.message}: {why}", error.details)


def _fields(body: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, value) of each field. Raises IndexError on damage."""
    place = 0
    while place < len(body):
        tag, place = _varint(body, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, place = _varint(body, place)
            yield number, wire, value
            continue
        length, place = _length(body, place, wire)
        if place + length > len(body):
            raise IndexError(f"field {number} wants {length} bytes")
        yield number, wire, body[place : place + length]
        place += length


def _length(body: bytes, place: int, wire: int) -> tuple[int, int]:
    if wire == _BYTES:
        return _varint(body, place)
    if wire in {_FIXED32, _FIXED64}:
        return (4 if wire == _FIXED32 else 8), place
    raise IndexError(f"unknown wire type {wire}")


def _varint(body: bytes, place: int) -> tuple[int, int]:
    value = 0
    for step in range(_LONGEST_VARINT):
        byte = body[place + step]
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            return value, place + step + 1
    raise IndexError("a number of more than ten bytes")


def _decode_message(body: bytes, message: Message, path: str) -> Object:
    decoded: Object = {}
    for number, _, value in _fields(body):
        field = message.get(number)
        if field is None:
            raise _refusal(f"field number {number} of {path} is not known")
        _set_field(decoded, field, value, f"{path}.{field.name}")
    return decoded


def _set_field(decoded: Object, field: Field, value: int | bytes, path: str) -> None:
    if field.shape is Shape.IGNORED:
        return
    if field.shape is Shape.MAP:
        key, item = _decode_entry(_as_bytes(value, path), field, path)
        decoded.setdefault(field.name, {})[key] = item
        return
    shown = _decode_value(field, value, path)
    if field.is_list:
        decoded.setdefault(field.name, []).append(shown)
    elif shown or field.is_pointer:
        decoded[field.name] = shown


def _decode_entry(entry: bytes, field: Field, path: str) -> tuple[str, Any]:
    parts = {number: value for number, _, value in _fields(entry)}
    key = _as_bytes(parts.get(1, b""), path).decode()
    item = Field(field.name, Shape.QUANTITY if field.message is not None else Shape.TEXT)
    return key, _decode_value(item, parts.get(2, b""), path)


def _decode_value(field: Field, value: int | bytes, path: str) -> Any:
    match field.shape:
        case Shape.INTEGER:
            return _signed(_as_int(value, path))
        case Shape.BOOLEAN:
            return bool(_as_int(value, path))
        case Shape.TEXT:
            return _as_bytes(value, path).decode()
        case Shape.QUANTITY:
            texts = [part for number, _, part in _fields(_as_bytes(value, path)) if number == 1]
            return _as_bytes(texts[0], path).decode() if texts else "0"
        case Shape.INT_OR_STRING:
            return _int_or_string(_as_bytes(value, path), path)
        case _:
            return _decode_message(_as_bytes(value, path), field.message or {}, path)


def _int_or_string(body: bytes, path: str) -> int | str:
    parts = {number: value for number, _, value in _fields(body)}
    if parts.get(1, 0) == 0:
        return _signed(_as_int(parts.get(2, 0), path))
    return _as_bytes(parts.get(3, b""), path).decode()


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _as_bytes(value: int | bytes, path: str) -> bytes:
    if isinstance(value, bytes):
        return value
    raise IndexError(f"{path} is a number")


def _as_int(value: int | bytes, path: str) -> int:
    if isinstance(value, int):
        return value
    raise IndexError(f"{path} is not a number")
