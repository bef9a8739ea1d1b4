"""Whether a JSON value fits its Go type, with the error texts of the real API server's decoder.

The real server decodes into structs and fails there; here objects stay dicts, and this walk along the table of types
finds what that decoder would find. Its behaviour is kept, because it shows in the texts:

- keys are read in the order of the document; the first wrong value is reported, but reading goes on;
- an error in a type with its own decoding (a quantity, a time) ends the reading at once and replaces earlier errors;
- indexes of lists and keys of maps are not part of the path of an error, but of the path of an unknown field;
- null fits everything.
"""

import base64
import re
import string
from collections.abc import Callable
from typing import Any

from kscheduler.api import quantity
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.typed.api_types import ApiType, JsonForm

_QUANTITY = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")
_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NO_SUFFIX = "unable to parse quantity's suffix"
_BASE64 = frozenset(f"{string.ascii_letters}{string.digits}+/=\r\n")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)")
_LAYOUTS = {JsonForm.TIME: "2006-01-02T15:04:05Z07:00", JsonForm.MICRO_TIME: "2006-01-02T15:04:05.000000Z07:00"}
_DURATION = re.compile(r"[-+]?(0|([0-9]*\.?[0-9]*(ns|us|µs|ms|s|m|h))+)")


class DecodingError(ValueError):
    """A value does not fit; the message is Go's.

    `conversion` is the text of the converter for strategic patches, if it differs.
    """

    def __init__(self, message: str, conversion: str = "") -> None:
        super().__init__(message)
        self.conversion = conversion
        self.field = ""
        """The path of a value with its own decoding, which Go's message does not name."""


class Decoding:
    """The findings of reading an object."""

    def __init__(self) -> None:
        self.first_mismatch = ""
        self.conversion = ""
        self.unknown: list[str] = []
        """Paths of unknown fields, in the order of the document."""

    def read(self, kind: ApiType, value: Object) -> None:
        """Read an object. Raises DecodingError with the real decoder's error."""
        self._struct(kind, value, "", "")
        if self.first_mismatch:
            raise DecodingError(self.first_mismatch, self.conversion)

    def _struct(self, kind: ApiType, value: Object, path: str, shown: str) -> None:
        fields = kind.fields
        for name, part in value.items():
            known = fields.get(name)
            if known is None and kind.form is JsonForm.ANY:
                continue
            if known is None:
                self.unknown.append(f"{shown}{name}")
            elif part is not None:
                inner = f"{path}.{known.path}" if path else known.path
                self._value(known.type, part, f"{kind.struct_name}.{inner}", inner, f"{shown}{name}")

    def _value(self, kind: ApiType, value: Any, where: str, path: str, shown: str) -> None:
        """`where` is the place in error texts, `path` the fields so far, `shown` the same with indices."""
        # Composite forms recurse; forms with their own decoding raise at once; scalars note the first mismatch.
        if value is None:
            return
        form = kind.form
        if form is JsonForm.STRUCT:
            if isinstance(value, dict):
                self._struct(kind, value, path, f"{shown}.")
            else:
                self._mismatch(value, where, kind.go_name)
        elif form is JsonForm.LIST:
            self._list(kind, value, where, path, shown)
        elif form is JsonForm.MAP:
            self._map(kind, value, where, path, shown)
        elif form in _SELF_DECODING:
            try:
                _SELF_DECODING[form](value, where, form)
            except DecodingError as error:
                error.field = shown
                self._end(error)
        elif form is not JsonForm.ANY:
            self._scalar(kind, value, where)

    def _list(self, kind: ApiType, value: Any, where: str, path: str, shown: str) -> None:
        if not isinstance(value, list):
            self._mismatch(value, where, kind.go_name)
        elif kind.element is not None:
            for place, part in enumerate(value):
                self._value(kind.element, part, where, path, f"{shown}[{place}]")

    def _map(self, kind: ApiType, value: Any, where: str, path: str, shown: str) -> None:
        if not isinstance(value, dict):
            self._mismatch(value, where, kind.go_name)
        elif kind.element is not None:
            for name, part in value.items():
                self._value(kind.element, part, where, path, f"{shown}.{name}")

    def _scalar(self, kind: ApiType, value: Any, where: str) -> None:
        # Booleans are integers in Python, so they are ruled out before numbers. A number out of range has its own text.
        form = kind.form
        if form is JsonForm.TEXT or form is JsonForm.BYTES:
            fits = isinstance(value, str)
            if fits and form is JsonForm.BYTES and not _is_base64(value):
                self._found(_not_base64(value))
        elif form is JsonForm.BOOLEAN:
            fits = isinstance(value, bool)
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            fits = False
        elif form is JsonForm.FLOAT:
            fits = True
        elif isinstance(value, float) or not -(1 << (kind.bits - 1)) <= value < 1 << (kind.bits - 1):
            self._note(f"number {value}", where, kind.go_name)
            return
        else:
            fits = True
        if not fits:
            self._mismatch(value, where, kind.go_name)

    def _mismatch(self, value: Any, where: str, go_name: str) -> None:
        self.conversion = self.conversion or conversion_text(value, go_name)
        self._note(json_type(value), where, go_name)

    def _note(self, found: str, where: str, go_name: str) -> None:
        self._found(_text(found, where, go_name))

    def _found(self, text: str) -> None:
        """Keep the first, and read on."""
        self.first_mismatch = self.first_mismatch or text

    def _end(self, error: DecodingError) -> None:
        """The reading ends with the failure of a type with its own decoding."""
        raise error


class WholeReading(Decoding):
    """Reads on where the real decoder ends, and keeps all: for a person, who corrects a manifest once."""

    def __init__(self) -> None:
        super().__init__()
        self._every: list[str] = []

    def mismatches(self, kind: ApiType, value: Object) -> list[str]:
        """What does not fit, in the order of the document."""
        self._struct(kind, value, "", "")
        return self._every

    def _found(self, text: str) -> None:
        self._every.append(text)

    def _end(self, error: DecodingError) -> None:
        self._every.append(f"{error.field}: {error}" if error.field else str(error))


def json_type(value: Any) -> str:
    """The type of a JSON value in the words of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


_GO_KINDS = {"object": "map", "array": "slice", "number": "int64"}


def conversion_text(value: Any, go_name: str) -> str:
    """The text of Go's converter of untyped objects for a value of the wrong type."""
    found = json_type(value)
    kind = "float64" if isinstance(value, float) else _GO_KINDS.get(found, found)
    if go_name.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if go_name.startswith("map["):
        return f"cannot restore map from {kind}"
    if "." in go_name:
        return f"cannot restore struct from: {kind}"
    if go_name == "string" and found == "number":
        return f"cannot convert {kind} to string"
    return f"unrecognized type: {go_name}"


def _text(found: str, where: str, go_name: str) -> str:
    return f"json: cannot unmarshal {found} into Go struct field {where} of type {go_name}"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError:
        return False
    return True


def _not_base64(text: str) -> str:
    place = next((at for at, letter in enumerate(text) if letter not in _BASE64), len(text) // 4 * 4)
    return f"illegal base64 data at input byte {place}"


def _quantity(value: Any, where: str, form: JsonForm) -> None:
    del where, form
    text = str(value).strip()
    if isinstance(value, (dict, list, bool)) or not _QUANTITY.fullmatch(text):
        raise DecodingError(_NOT_A_QUANTITY)
    try:
        quantity.milli_value(value)
    except quantity.QuantityError:
        raise DecodingError(_NO_SUFFIX) from None


def _int_or_string(value: Any, where: str, form: JsonForm) -> None:
    del form
    if isinstance(value, str):
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DecodingError(_text(json_type(value), where, "int32"))
    if isinstance(value, float) or not -(1 << 31) <= value < 1 << 31:
        raise DecodingError(_text(f"number {value}", where, "int32"))


def _moment(value: Any, where: str, form: JsonForm) -> None:
    if not isinstance(value, str):
        raise DecodingError(_text(json_type(value), where, "string"))
    if not _MOMENT.fullmatch(value):
        raise DecodingError(f'parsing time "{value}" as "{_LAYOUTS[form]}": cannot parse "{value}" as "2006"')


def _duration(value: Any, where: str, form: JsonForm) -> None:
    del form
    if not isinstance(value, str):
        raise DecodingError(_text(json_type(value), where, "string"))
    if not _DURATION.fullmatch(value):
        raise DecodingError(f'time: invalid duration "{value}"')


_SELF_DECODING: dict[JsonForm, Callable[[Any, str, JsonForm], None]] = {
    JsonForm.QUANTITY: _quantity,
    JsonForm.INT_OR_STRING: _int_or_string,
    JsonForm.TIME: _moment,
    JsonForm.MICRO_TIME: _moment,
    JsonForm.DURATION: _duration,
}
