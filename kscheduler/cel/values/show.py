"""Values as Go's `%v` prints them in error texts."""

from typing import Any

from kscheduler.cel.steps import spend
from kscheduler.cel.types import Type
from kscheduler.cel.values import go_text
from kscheduler.cel.values.kinds import ANY_MAP, DurationValue, ErrorValue, Opaque, Optional, Timestamp


def shown(value: Any) -> str:  # noqa: C901 : one kind after the other
    """`%v` of a value."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case None:
            return "0"
        case int():
            return str(int(value))
        case float():
            return go_text.float_g(value)
        case bytes():
            return f"[{' '.join(str(byte) for byte in value)}]"
        case list():
            spend(len(value))
            return f"[{', '.join(shown(element) for element in value)}]"
        case DurationValue():
            return go_text.duration(value.nanos)
        case Timestamp():
            return go_text.moment(value.seconds, value.nanos, value.offset, value.zone)
        case Optional():
            return f"optional({shown(value.value)})" if value.present else "optional.none()"
        case Type():
            return str(value)
        case ErrorValue():
            return value.message
        case Opaque():
            return value.text()
    if isinstance(value, ANY_MAP):
        spend(len(value))
        entries = ((key, value.find(key)) for key in value.keys())  # noqa: SIM118 : no dict
        return f"{{{', '.join(f'{shown(key)}: {shown(found[0])}' for key, found in entries if found)}}}"
    return str(value)
