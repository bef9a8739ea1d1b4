"""The functions of Kubernetes' libraries, by overload."""

from collections.abc import Callable
from typing import Any

from kscheduler.cel.functions import Implementation
from kscheduler.cel.functions.regexes import RegexError, find, find_all
from kscheduler.cel.kubernetes import networks, quantities, semvers, urls, wide_quantities
from kscheduler.cel.kubernetes.named_formats import FORMATS
from kscheduler.cel.kubernetes.wide_quantities import WideQuantity
from kscheduler.cel.values.arithmetic import add
from kscheduler.cel.values.comparing import compare, equal_method
from kscheduler.cel.values.kinds import NO_SUCH_OVERLOAD, NONE, DurationValue, ErrorValue, Map, Optional, Uint
from kscheduler.cel.values.typing import type_of

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
# As many values as an attribute of a device may have.
_MAX_INCLUDES = 48
_ADDABLE = frozenset(("bytes", "double", "duration", "int", "list", "string", "timestamp", "uint"))


def _or_failure(read: Callable[..., Any]) -> Implementation:
    """A reader whose error becomes a value."""

    def call(*args: Any) -> Any:
        try:
            return read(*args)
        except (ValueError, RegexError) as error:
            return ErrorValue(str(error))

    return call


def _is(read: Callable[..., Any]) -> Implementation:
    """Whether a text can be read."""

    def call(*args: Any) -> bool:
        try:
            read(*args)
        except ValueError:
            return False
        return True

    return call


def _quantities(*, shared: bool, wide: bool) -> dict[str, Implementation]:
    kind, parse = (WideQuantity, wide_quantities.parse) if wide else (quantities.Quantity, quantities.parse)

    def plus(sign: int) -> Implementation:
        return lambda one, other: one.plus(other, sign=sign, shared=shared)

    def plus_integer(sign: int) -> Implementation:
        return lambda one, other: one.plus(kind(other, 0), sign=sign, shared=shared)

    def integer(quantity: quantities.Quantity) -> Any:
        value = quantity.as_integer()
        return ErrorValue("cannot convert value to integer") if value is None else value

    return {
        "string_to_quantity": _or_failure(parse),
        "is_quantity_string": _is(parse),
        "quantity_sign": lambda quantity: quantity.sign(),
        "quantity_is_greater_than": lambda one, other: one.compare(other) == 1,
        "quantity_is_less_than": lambda one, other: one.compare(other) == -1,
        "quantity_compare_to": lambda one, other: one.compare(other),
        "quantity_get_float": lambda quantity: quantity.as_float(),
        "quantity_get_int": integer,
        "quantity_is_integer": lambda quantity: quantity.as_integer() is not None,
        "quantity_add": plus(1),
        "quantity_add_int": plus_integer(1),
        "quantity_sub": plus(-1),
        "quantity_sub_int": plus_integer(-1),
    }


def _read_version(text: str, normalize: bool = False) -> semvers.Semver:
    return semvers.normalized(text) if normalize else semvers.parse(text)


_VERSIONS: dict[str, Implementation] = {
    "string_to_semver": _or_failure(_read_version),
    "string_bool_to_semver": _or_failure(_read_version),
    "is_semver_string": _is(_read_version),
    "is_semver_string_bool": _is(_read_version),
    "semver_is_greater_than": lambda one, other: one.compare(other) == 1,
    "semver_is_less_than": lambda one, other: one.compare(other) == -1,
    "semver_compare_to": lambda one, other: one.compare(other),
    **{
        f"semver_{name}": (lambda version, at=at: _signed(version.numbers[at]))
        for at, name in enumerate(("major", "minor", "patch"))
    },
}


def _signed(number: int) -> int:
    """A uint64 as Go converts it to int64."""
    return number - 2**64 if number >= 2**63 else number


def _network(text: str) -> Any:
    try:
        return networks.parse_network(text)
    except networks.AddressError as error:
        return ErrorValue(f"network address parse error during conversion from string: {error}")


def _contains_text(cidr: networks.CIDR, text: str) -> Any:
    try:
        return cidr.contains(networks.parse_address(text).address)
    except networks.AddressError:
        return NO_SUCH_OVERLOAD


def _contains_network_text(cidr: networks.CIDR, text: str) -> Any:
    other = _network(text)
    return other if isinstance(other, ErrorValue) else cidr.contains_network(other)


def _first(address: Any, *networks_of: str) -> bool:
    return any(networks.parse_network(text).contains(address) for text in networks_of)


def _is_global(ip: networks.IP) -> bool:
    address = ip.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or str(address) == "255.255.255.255"
        or _first(address, "169.254.0.0/16", "fe80::/10")
    )


_ADDRESSES: dict[str, Implementation] = {
    "string_to_ip": _or_failure(networks.parse_address),
    "is_ip": _is(networks.parse_address),
    "ip_family": lambda ip: ip.address.version,
    "ip_is_canonical": _or_failure(lambda text: networks.parse_address(text).text() == text),
    "ip_is_unspecified": lambda ip: ip.address.is_unspecified,
    "ip_is_loopback": lambda ip: ip.address.is_loopback,
    "ip_is_link_local_multicast": lambda ip: _is_link_local_multicast(ip),  # noqa: PLW0108  defined below
    "ip_is_link_local_unicast": lambda ip: _first(ip.address, "169.254.0.0/16", "fe80::/10"),
    "ip_is_global_unicast": _is_global,
    "ip_to_string": lambda ip: ip.text(),
    "string_to_cidr": _network,
    "is_cidr": _is(networks.parse_network),
    "cidr_contains_ip_string": _contains_text,
    "cidr_contains_ip_ip": lambda cidr, ip: cidr.contains(ip.address),
    "cidr_contains_cidr_string": _contains_network_text,
    "cidr_contains_cidr": lambda cidr, other: cidr.contains_network(other),
    "cidr_ip": lambda cidr: networks.IP(cidr.address),
    "cidr_prefix_length": lambda cidr: cidr.bits,
    "cidr_masked": lambda cidr: cidr.masked(),
    "cidr_is_mask": lambda cidr: cidr.equals(cidr.masked()),
    "cidr_to_string": lambda cidr: cidr.text(),
}


def _is_link_local_multicast(ip: networks.IP) -> bool:
    packed = ip.address.packed
    if len(packed) == 4:
        return _first(ip.address, "224.0.0.0/24")
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _url(text: str) -> Any:
    try:
        urls.request_uri(text)
        return urls.parse(text)
    except urls.UrlError as error:
        return ErrorValue(f"URL parse error during conversion from string: {error}")


def _parameters(url: urls.URL) -> Map:
    found = Map()
    for key, values in url.parameters().items():
        found.put(key, values)
    return found


_URLS: dict[str, Implementation] = {
    "string_to_url": _url,
    "is_url_string": _is(urls.request_uri),
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": lambda url: url.hostname(),
    "url_get_port": lambda url: url.port(),
    "url_get_escaped_path": lambda url: url.escaped_path(),
    "url_get_query": _parameters,
}


def _validated(named: Any, text: str) -> Optional:
    errors = named.validate(text)
    return Optional(errors) if errors else NONE


_FORMATS: dict[str, Implementation] = {
    **{f"format.{name}": (lambda named=named: named) for name, named in FORMATS.items()},
    "format-named": lambda name: Optional(FORMATS[name]) if name in FORMATS else NONE,
    "format-validate": _validated,
}


def _regexes() -> dict[str, Implementation]:
    def illegal(call: Callable[..., Any]) -> Implementation:
        def guarded(*args: Any) -> Any:
            try:
                return call(*args)
            except RegexError as error:
                return ErrorValue(f"Illegal regex: {error}")

        return guarded

    return {
        "string_find_string": illegal(find),
        "string_find_all_string": illegal(lambda text, pattern: find_all(text, pattern, -1)),
        "string_find_all_string_int": illegal(find_all),
    }


def _is_sorted(values: list[Any]) -> Any:
    for at, value in enumerate(values):
        if type_of(value).kind not in _COMPARABLE:
            return NO_SUCH_OVERLOAD
        if at and compare(values[at - 1], value) == 1:
            return False
    return True


def _sum(zero: Any) -> Implementation:
    def call(values: list[Any]) -> Any:
        total = zero
        for value in values:
            total = add(total, value) if type_of(value).kind in _ADDABLE else NO_SUCH_OVERLOAD
            if type(total) is ErrorValue:
                return total
        return total

    return call


def _extreme(name: str, preferred: int) -> Implementation:
    def call(values: list[Any]) -> Any:
        if not values:
            return ErrorValue(f"{name} called on empty list")
        best: Any = None
        for at, value in enumerate(values):
            if type_of(value).kind not in _COMPARABLE:
                return NO_SUCH_OVERLOAD
            if at == 0 or compare(best, value) == preferred:
                best = value
        return best

    return call


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((at for at, value in enumerate(values) if equal_method(value, wanted) is True), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    return next((at for at in reversed(range(len(values))) if equal_method(values[at], wanted) is True), -1)


def _includes(values: Any, wanted: Any) -> bool:
    if isinstance(values, list):
        return any(equal_method(value, wanted) is True for value in values)
    return equal_method(values, wanted) is True


def _includes_of_short(values: Any, wanted: Any) -> bool | ErrorValue:
    """That of 1.36, which is made for attributes of devices."""
    if isinstance(values, list) and len(values) > _MAX_INCLUDES:
        if _includes(values[:_MAX_INCLUDES], wanted):
            return True
        return ErrorValue(f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES} values")
    return _includes(values, wanted)


def _lists(*, short_includes: bool) -> dict[str, Implementation]:
    found: dict[str, Implementation] = {
        "list_a_index_of_int": _index_of,
        "list_a_last_index_of_int": _last_index_of,
        "list_includes_dyn_dyn": _includes_of_short if short_includes else _includes,
    }
    for kind in _COMPARABLE:
        found[f"list_{kind}_is_sorted_bool"] = _is_sorted
        found[f"list_{kind}_max_{kind}"] = _extreme("max", -1)
        found[f"list_{kind}_min_{kind}"] = _extreme("min", 1)
    for kind, zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0), ("duration", DurationValue(0))):
        found[f"list_{kind}_sum_{kind}"] = _sum(zero)
    return found


def kubernetes_functions(*, shared_decimals: bool, wide: bool, short_includes: bool) -> dict[str, Implementation]:
    """All of them. `shared_decimals`: 1.36 changes a large quantity when another is added to it. `wide`:
    those of 1.38. `short_includes`: that of 1.36 fails beyond 48 values.
    """
    quantity_functions = _quantities(shared=shared_decimals, wide=wide)
    lists = _lists(short_includes=short_includes)
    return {**quantity_functions, **_VERSIONS, **_ADDRESSES, **_URLS, **_FORMATS, **_regexes(), **lists}
