"""The functions that libraries add to CEL, written as in `kscheduler.cel.checking.standard_signatures`.

First CEL's own extensions (strings, lists, sets, optionals, comprehensions of two variables), then Kubernetes'
libraries (quantities, versions, addresses, URLs, named formats, lists, regular expressions, authorization) as its API
server has them.
"""

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")
_FULL_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
# Formats that have a function of their own, `format.<name>()`.
NAMED_FORMATS = (
    "byte", "date", "datetime", "dns1035Label", "dns1035LabelPrefix", "dns1123Label", "dns1123LabelPrefix",
    "dns1123Subdomain", "dns1123SubdomainPrefix", "labelValue", "qualifiedName", "uri", "uuid",
)  # fmt: skip

_SIGNATURES = """
add quantity_add Quantity.(Quantity) -> Quantity
add quantity_add_int Quantity.(int) -> Quantity
allowed decision_allowed Decision.() -> bool
asApproximateFloat quantity_get_float Quantity.() -> double
asInteger quantity_get_int Quantity.() -> int
cel.@mapInsert @mapInsert_map_key_value (map(K, V), K, V) -> map(K, V)
cel.@mapInsert @mapInsert_map_map (map(K, V), map(K, V)) -> map(K, V)
charAt string_char_at_int string.(int) -> string
check pathcheck_check PathCheck.(string) -> Decision
check resourcecheck_check ResourceCheck.(string) -> Decision
cidr string_to_cidr (string) -> CIDR
compareTo quantity_compare_to Quantity.(Quantity) -> int
compareTo semver_compare_to Semver.(Semver) -> int
containsCIDR cidr_contains_cidr_string CIDR.(string) -> bool
containsCIDR cidr_contains_cidr CIDR.(CIDR) -> bool
containsIP cidr_contains_ip_string CIDR.(string) -> bool
containsIP cidr_contains_ip_ip CIDR.(IP) -> bool
distinct list_distinct list(T).() -> list(T)
error decision_error Decision.() -> string
errored decision_errored Decision.() -> bool
family ip_family IP.() -> int
fieldSelector authorizer_fieldselector ResourceCheck.(string) -> ResourceCheck
find string_find_string string.(string) -> string
findAll string_find_all_string string.(string) -> list(string)
findAll string_find_all_string_int string.(string, int) -> list(string)
first list_first list(V).() -> optional(V)
flatten list_flatten list(list(T)).() -> list(T)
flatten list_flatten_int list(dyn).(int) -> list(dyn)
format string_format string.(list(dyn)) -> string
format.named format-named (string) -> optional(NamedFormat)
getEscapedPath url_get_escaped_path URL.() -> string
getHost url_get_host URL.() -> string
getHostname url_get_hostname URL.() -> string
getPort url_get_port URL.() -> string
getQuery url_get_query URL.() -> map(string, list(string))
getScheme url_get_scheme URL.() -> string
group authorizer_group Authorizer.(string) -> GroupCheck
hasValue optional_hasValue optional(V).() -> bool
includes list_includes_dyn_dyn dyn.(dyn) -> bool
indexOf string_index_of_string string.(string) -> int
indexOf string_index_of_string_int string.(string, int) -> int
indexOf list_a_index_of_int list(A).(A) -> int
ip string_to_ip (string) -> IP
ip cidr_ip CIDR.() -> IP
ip.isCanonical ip_is_canonical (string) -> bool
isCIDR is_cidr (string) -> bool
isGlobalUnicast ip_is_global_unicast IP.() -> bool
isGreaterThan quantity_is_greater_than Quantity.(Quantity) -> bool
isGreaterThan semver_is_greater_than Semver.(Semver) -> bool
isIP is_ip (string) -> bool
isInteger quantity_is_integer Quantity.() -> bool
isLessThan quantity_is_less_than Quantity.(Quantity) -> bool
isLessThan semver_is_less_than Semver.(Semver) -> bool
isLinkLocalMulticast ip_is_link_local_multicast IP.() -> bool
isLinkLocalUnicast ip_is_link_local_unicast IP.() -> bool
isLoopback ip_is_loopback IP.() -> bool
isQuantity is_quantity_string (string) -> bool
isSemver is_semver_string (string) -> bool
isSemver is_semver_string_bool (string, bool) -> bool
isURL is_url_string (string) -> bool
isUnspecified ip_is_unspecified IP.() -> bool
join list_join list(string).() -> string
join list_join_string list(string).(string) -> string
labelSelector authorizer_labelselector ResourceCheck.(string) -> ResourceCheck
last list_last list(V).() -> optional(V)
lastIndexOf string_last_index_of_string string.(string) -> int
lastIndexOf string_last_index_of_string_int string.(string, int) -> int
lastIndexOf list_a_last_index_of_int list(A).(A) -> int
lists.range lists_range (int) -> list(int)
lowerAscii string_lower_ascii string.() -> string
major semver_major Semver.() -> int
masked cidr_masked CIDR.() -> CIDR
minor semver_minor Semver.() -> int
name resourcecheck_name ResourceCheck.(string) -> ResourceCheck
namespace resourcecheck_namespace ResourceCheck.(string) -> ResourceCheck
optional.none optional_none () -> optional(V)
optional.of optional_of (V) -> optional(V)
optional.ofNonZeroValue optional_ofNonZeroValue (V) -> optional(V)
optional.unwrap optional_unwrap (list(optional(V))) -> list(V)
or optional_or_optional optional(V).(optional(V)) -> optional(V)
orValue optional_orValue_value optional(V).(V) -> V
patch semver_patch Semver.() -> int
path authorizer_path Authorizer.(string) -> PathCheck
prefixLength cidr_prefix_length CIDR.() -> int
quantity string_to_quantity (string) -> Quantity
reason decision_reason Decision.() -> string
replace string_replace_string_string string.(string, string) -> string
replace string_replace_string_string_int string.(string, string, int) -> string
resource groupcheck_resource GroupCheck.(string) -> ResourceCheck
reverse list_reverse list(T).() -> list(T)
semver string_to_semver (string) -> Semver
semver string_bool_to_semver (string, bool) -> Semver
serviceAccount authorizer_serviceaccount Authorizer.(string, string) -> Authorizer
sets.contains list_sets_contains_list (list(T), list(T)) -> bool
sets.equivalent list_sets_equivalent_list (list(T), list(T)) -> bool
sets.intersects list_sets_intersects_list (list(T), list(T)) -> bool
sign quantity_sign (Quantity) -> int
slice list_slice list(T).(int, int) -> list(T)
split string_split_string string.(string) -> list(string)
split string_split_string_int string.(string, int) -> list(string)
strings.quote strings_quote (string) -> string
sub quantity_sub Quantity.(Quantity) -> Quantity
sub quantity_sub_int Quantity.(int) -> Quantity
subresource resourcecheck_subresource ResourceCheck.(string) -> ResourceCheck
substring string_substring_int string.(int) -> string
substring string_substring_int_int string.(int, int) -> string
trim string_trim string.() -> string
unwrapOpt optional_unwrapOpt list(optional(V)).() -> list(V)
upperAscii string_upper_ascii string.() -> string
url string_to_url (string) -> URL
validate format-validate NamedFormat.(string) -> optional(list(string))
value optional_value optional(V).() -> V
"""


def library_signatures() -> list[str]:
    """All of them, a line each."""
    lines = _SIGNATURES.split("\n")[1:-1]
    for kind in _COMPARABLE:
        full = _FULL_NAMES.get(kind, kind)
        lines += [
            f"isSorted list_{kind}_is_sorted_bool list({kind}).() -> bool",
            f"max list_{kind}_max_{kind} list({kind}).() -> {kind}",
            f"min list_{kind}_min_{kind} list({kind}).() -> {kind}",
            f"sort list_{full}_sort list({kind}).() -> list({kind})",
            f"@sortByAssociatedKeys list_{full}_sortByAssociatedKeys list(T).(list({kind})) -> list(T)",
        ]
    lines += [f"sum list_{kind}_sum_{kind} list({kind}).() -> {kind}" for kind in _SUMMABLE]
    lines += [f"format.{name} format.{name} () -> NamedFormat" for name in NAMED_FORMATS]
    return lines
