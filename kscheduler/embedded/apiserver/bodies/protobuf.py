r"""Decodes protobuf request bodies, which kubectl's typed commands send, to plain objects.

`kubectl create namespace` and similar commands (kubectl 1.32 and later) send protobuf without a fallback. The format is
an envelope, `k8s\0` and an `Unknown` message with the type and the raw bytes; the table of API types has the number of
each field. Go writes zero values of plain fields too; they are dropped here, as JSON's `omitempty` would.

Limits: decoding only, and only kinds of the table; an unknown field is refused.
"""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from kscheduler.api.machinery.api_errors import ApiError, Object, bad_request, unsupported_media_type
from kscheduler.api.typed.api_types import ApiField, ApiType, JsonForm, table, type_of_kind

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
    group, _, version = group_version.rpartition("/")
    is_options = kind == "DeleteOptions"
    body_type = table().type_of("meta/v1.DeleteOptions") if is_options else type_of_kind(group, version, kind)
    if body_type is None:
        raise _refusal(f"{kind} objects are not read from protobuf here")
    return {
        "apiVersion": group_version,
        "kind": kind,
        **_decode_struct(_as_bytes(parts.get(2, b""), kind), body_type, kind),
    }


def _refusal(reason: str) -> ApiError:
    error = unsupported_media_type(MEDIA_TYPE, ("application/json", "application/yaml"))
    return ApiError(error.code, error.reason, f"{error.message}: {reason}", error.details)


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


def _decode_struct(body: bytes, kind: ApiType, path: str) -> Object:
    decoded: Object = {}
    for number, _, value in _fields(body):
        field = kind.by_number.get(number)
        if field is None:
            raise _refusal(f"field number {number} of {path} is not known")
        if field.name:
            _set_field(decoded, field, value, f"{path}.{field.name}")
        else:  # an embedded struct is a message of its own in protobuf, and part of the outer object in JSON
            decoded |= _decode_struct(_as_bytes(value, path), field.type, path)
    return decoded


def _set_field(decoded: Object, field: ApiField, value: int | bytes, path: str) -> None:
    kind = field.type
    if kind.form is JsonForm.MAP and kind.element is not None:
        key, item = _decode_entry(_as_bytes(value, path), kind.element, path)
        decoded.setdefault(field.name, {})[key] = item
    elif kind.form is JsonForm.LIST and kind.element is not None and not kind.key:
        decoded.setdefault(field.name, []).append(_decode_value(kind.element, value, path))
    else:
        shown = _decode_value(kind, value, path)
        is_written = field.is_pointer or (field.is_always_written and kind.form is not JsonForm.STRUCT)
        if shown or (is_written and shown is not None):
            decoded[field.name] = shown


def _decode_entry(entry: bytes, kind: ApiType, path: str) -> tuple[str, Any]:
    parts = {number: value for number, _, value in _fields(entry)}
    key = _as_bytes(parts.get(1, b""), path).decode()
    return key, _decode_value(kind, parts.get(2, b""), path)


def _decode_value(kind: ApiType, value: int | bytes, path: str) -> Any:
    match kind.form:
        case JsonForm.INTEGER:
            return _signed(_as_int(value, path))
        case JsonForm.BOOLEAN:
            return bool(_as_int(value, path))
        case JsonForm.TEXT:
            return _as_bytes(value, path).decode()
        case JsonForm.BYTES:
            return base64.b64encode(_as_bytes(value, path)).decode()
        case JsonForm.FLOAT:
            return struct.unpack("<d", _as_bytes(value, path))[0] if len(_as_bytes(value, path)) == 8 else 0.0
        case JsonForm.STRUCT:
            return _decode_struct(_as_bytes(value, path), kind, path)
        case _:
            return _decode_wrapped(kind, _as_bytes(value, path), path)


def _decode_wrapped(kind: ApiType, body: bytes, path: str) -> Any:
    """Types that are messages in protobuf and something simpler in JSON."""
    if kind.form is JsonForm.LIST and kind.element is not None:
        return [_decode_value(kind.element, part, path) for number, _, part in _fields(body) if number == 1]
    if kind.form is JsonForm.INT_OR_STRING:
        return _int_or_string(body, path)
    parts = {number: part for number, _, part in _fields(body)}
    if kind.form in {JsonForm.TIME, JsonForm.MICRO_TIME}:
        return _moment(parts, is_fine=kind.form is JsonForm.MICRO_TIME, path=path)
    if kind.form is JsonForm.DURATION:
        return f"{_signed(_as_int(parts.get(1, 0), path)) / 1e9:g}s"
    raw = _as_bytes(parts.get(1, b""), path)
    if kind.form is JsonForm.QUANTITY:
        return raw.decode() or "0"
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError as error:
        raise IndexError(f"{path} holds no JSON: {error}") from error


def _moment(parts: dict[int, int | bytes], *, is_fine: bool, path: str) -> str | None:
    seconds, nanoseconds = (_signed(_as_int(parts.get(number, 0), path)) for number in (1, 2))
    if not parts:
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None  # Go's zero time lies before the year 1
    if moment.year < 1970:
        return None
    fraction = f".{nanoseconds // 1000:06d}" if is_fine else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


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
