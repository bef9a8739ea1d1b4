"""The operators and functions of CEL itself: for each overload its function, its own name, its parameters and its
result.

`string.(int)` is a function of a string that takes an int. The order is that of cel-go: the first overload that fits
wins. Capital letters are parameters.
"""

_NUMBERS = ("int", "uint", "double")
_SHORT = {"int": "int64", "uint": "uint64"}
_ORDERED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_ORDERS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}

_SIGNATURES = """
!_ logical_not (bool) -> bool
-_ negate_double (double) -> double
-_ negate_int64 (int) -> int
@in in_list (A, list(A)) -> bool
@in in_map (A, map(A, B)) -> bool
@not_strictly_false not_strictly_false (bool) -> bool
_!=_ not_equals (A, A) -> bool
_%_ modulo_int64 (int, int) -> int
_%_ modulo_uint64 (uint, uint) -> uint
_&&_ logical_and (bool, bool) -> bool
_*_ multiply_double (double, double) -> double
_*_ multiply_int64 (int, int) -> int
_*_ multiply_uint64 (uint, uint) -> uint
_+_ add_bytes (bytes, bytes) -> bytes
_+_ add_double (double, double) -> double
_+_ add_duration_duration (duration, duration) -> duration
_+_ add_duration_timestamp (duration, timestamp) -> timestamp
_+_ add_timestamp_duration (timestamp, duration) -> timestamp
_+_ add_int64 (int, int) -> int
_+_ add_list (list(A), list(A)) -> list(A)
_+_ add_string (string, string) -> string
_+_ add_uint64 (uint, uint) -> uint
_-_ subtract_double (double, double) -> double
_-_ subtract_duration_duration (duration, duration) -> duration
_-_ subtract_int64 (int, int) -> int
_-_ subtract_timestamp_duration (timestamp, duration) -> timestamp
_-_ subtract_timestamp_timestamp (timestamp, timestamp) -> duration
_-_ subtract_uint64 (uint, uint) -> uint
_/_ divide_double (double, double) -> double
_/_ divide_int64 (int, int) -> int
_/_ divide_uint64 (uint, uint) -> uint
_==_ equals (A, A) -> bool
_?._ select_optional_field (dyn, string) -> optional(V)
_?_:_ conditional (bool, A, A) -> A
_[?_] list_optindex_optional_int (list(V), int) -> optional(V)
_[?_] optional_list_optindex_optional_int (optional(list(V)), int) -> optional(V)
_[?_] map_optindex_optional_value (map(K, V), K) -> optional(V)
_[?_] optional_map_optindex_optional_value (optional(map(K, V)), K) -> optional(V)
_[_] index_list (list(A), int) -> A
_[_] index_map (map(A, B), A) -> B
_[_] optional_list_index_int (optional(list(V)), int) -> optional(V)
_[_] optional_map_index_value (optional(map(K, V)), K) -> optional(V)
_||_ logical_or (bool, bool) -> bool
bool bool_to_bool (bool) -> bool
bool string_to_bool (string) -> bool
bytes bytes_to_bytes (bytes) -> bytes
bytes string_to_bytes (string) -> bytes
contains contains_string string.(string) -> bool
double double_to_double (double) -> double
double int64_to_double (int) -> double
double string_to_double (string) -> double
double uint64_to_double (uint) -> double
duration duration_to_duration (duration) -> duration
duration string_to_duration (string) -> duration
dyn to_dyn (A) -> dyn
endsWith ends_with_string string.(string) -> bool
getDate timestamp_to_day_of_month_1_based timestamp.() -> int
getDate timestamp_to_day_of_month_1_based_with_tz timestamp.(string) -> int
getDayOfMonth timestamp_to_day_of_month timestamp.() -> int
getDayOfMonth timestamp_to_day_of_month_with_tz timestamp.(string) -> int
getDayOfWeek timestamp_to_day_of_week timestamp.() -> int
getDayOfWeek timestamp_to_day_of_week_with_tz timestamp.(string) -> int
getDayOfYear timestamp_to_day_of_year timestamp.() -> int
getDayOfYear timestamp_to_day_of_year_with_tz timestamp.(string) -> int
getFullYear timestamp_to_year timestamp.() -> int
getFullYear timestamp_to_year_with_tz timestamp.(string) -> int
getHours timestamp_to_hours timestamp.() -> int
getHours timestamp_to_hours_with_tz timestamp.(string) -> int
getHours duration_to_hours duration.() -> int
getMilliseconds timestamp_to_milliseconds timestamp.() -> int
getMilliseconds timestamp_to_milliseconds_with_tz timestamp.(string) -> int
getMilliseconds duration_to_milliseconds duration.() -> int
getMinutes timestamp_to_minutes timestamp.() -> int
getMinutes timestamp_to_minutes_with_tz timestamp.(string) -> int
getMinutes duration_to_minutes duration.() -> int
getMonth timestamp_to_month timestamp.() -> int
getMonth timestamp_to_month_with_tz timestamp.(string) -> int
getSeconds timestamp_to_seconds timestamp.() -> int
getSeconds timestamp_to_seconds_tz timestamp.(string) -> int
getSeconds duration_to_seconds duration.() -> int
int int64_to_int64 (int) -> int
int double_to_int64 (double) -> int
int duration_to_int64 (duration) -> int
int string_to_int64 (string) -> int
int timestamp_to_int64 (timestamp) -> int
int uint64_to_int64 (uint) -> int
matches matches (string, string) -> bool
matches matches_string string.(string) -> bool
size size_bytes (bytes) -> int
size bytes_size bytes.() -> int
size size_list (list(A)) -> int
size list_size list(A).() -> int
size size_map (map(A, B)) -> int
size map_size map(A, B).() -> int
size size_string (string) -> int
size string_size string.() -> int
startsWith starts_with_string string.(string) -> bool
string string_to_string (string) -> string
string bool_to_string (bool) -> string
string bytes_to_string (bytes) -> string
string double_to_string (double) -> string
string duration_to_string (duration) -> string
string int64_to_string (int) -> string
string timestamp_to_string (timestamp) -> string
string uint64_to_string (uint) -> string
string ip_to_string (IP) -> string
string cidr_to_string (CIDR) -> string
timestamp timestamp_to_timestamp (timestamp) -> timestamp
timestamp int64_to_timestamp (int) -> timestamp
timestamp string_to_timestamp (string) -> timestamp
type type (A) -> type(A)
uint uint64_to_uint64 (uint) -> uint
uint double_to_uint64 (double) -> uint
uint int64_to_uint64 (int) -> uint
uint string_to_uint64 (string) -> uint
"""


def standard_signatures() -> list[str]:
    """All of them, a line each."""
    orders = [line for function, name in _ORDERS.items() for line in _order(function, name)]
    return [*_SIGNATURES.split("\n")[1:-1], *orders]


def _order(function: str, name: str) -> list[str]:
    """The overloads of a comparison: each ordered type with itself, numbers with each other."""
    lines: list[str] = []
    for kind in _ORDERED:
        short = _SHORT.get(kind, kind)
        lines.append(f"{function} {name}_{short} ({kind}, {kind}) -> bool")
        if kind in _NUMBERS:
            others = [other for other in ("double", "int", "uint") if other != kind]
            lines += [
                f"{function} {name}_{short}_{_SHORT.get(other, other)} ({kind}, {other}) -> bool" for other in others
            ]
    return lines
