"""Which proxy leads to a server: Go's rules (golang.org/x/net/http/httpproxy), one row each."""

import pytest

from kscheduler.client.access.proxies import environment_proxy
from kscheduler.client.errors import ConfigurationError

P = "http://proxy.example:3128"
KUBE = "https://kube.internal.example:6443"

RULES = [
    pytest.param(KUBE, {}, None, id="nothing set"),
    pytest.param(KUBE, {"HTTPS_PROXY": P}, P, id="https"),
    pytest.param(KUBE, {"https_proxy": P}, P, id="small letters"),
    pytest.param(KUBE, {"HTTPS_PROXY": P, "https_proxy": "http://other:1"}, P, id="capitals first"),
    pytest.param(KUBE, {"HTTPS_PROXY": "", "https_proxy": P}, P, id="empty is not set"),
    pytest.param(KUBE, {"Https_Proxy": P}, None, id="no other spelling"),
    pytest.param(KUBE, {"HTTP_PROXY": P, "ALL_PROXY": P}, None, id="of the other scheme"),
    pytest.param("http://kube.example:8080", {"HTTP_PROXY": P, "HTTPS_PROXY": "http://other:1"}, P, id="http"),
    pytest.param("http://kube.example", {"http_proxy": P}, P, id="http in small letters"),
    pytest.param(KUBE, {"HTTPS_PROXY": "proxy.example:3128"}, P, id="without a scheme"),
    pytest.param(KUBE, {"HTTPS_PROXY": "10.0.0.1:3128"}, "http://10.0.0.1:3128", id="address without a scheme"),
    pytest.param(KUBE, {"HTTPS_PROXY": "proxy"}, "http://proxy", id="name alone"),
    pytest.param(KUBE, {"HTTPS_PROXY": "HTTP://proxy.example:3128"}, P, id="scheme in capitals"),
    pytest.param(KUBE, {"HTTPS_PROXY": "https://p:1"}, "https://p:1", id="https proxy"),
    pytest.param(KUBE, {"HTTPS_PROXY": "http://u:p@p:1"}, "http://u:p@p:1", id="proxy with a password"),
    # --- this machine
    pytest.param("https://localhost:6443", {"HTTPS_PROXY": P}, None, id="localhost never"),
    pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": P}, None, id="loopback never"),
    pytest.param("https://127.9.9.9", {"HTTPS_PROXY": P}, None, id="any of loopback never"),
    pytest.param("https://[::1]:6443", {"HTTPS_PROXY": P}, None, id="IPv6 loopback never"),
    pytest.param("https://[::ffff:127.0.0.1]:6443", {"HTTPS_PROXY": P}, None, id="mapped loopback never"),
    pytest.param("https://10.0.0.1:6443", {"HTTPS_PROXY": P}, P, id="other addresses"),
]
NO_PROXY = [
    pytest.param(KUBE, "*", True, id="everything"),
    pytest.param(KUBE, "other.example, *", True, id="everything, among others"),
    pytest.param(KUBE, "kube.internal.example", True, id="the name"),
    pytest.param(KUBE, "KUBE.Internal.Example", True, id="the name in capitals"),
    pytest.param(KUBE, " a.example ,, kube.internal.example ", True, id="blanks"),
    pytest.param(KUBE, "a.example kube.internal.example", False, id="blanks do not separate"),
    pytest.param(KUBE, "internal.example", True, id="a name stands for what is below it"),
    pytest.param(KUBE, ".internal.example", True, id="leading dot"),
    pytest.param(KUBE, "*.internal.example", True, id="star and dot"),
    pytest.param(KUBE, ".kube.internal.example", False, id="leading dot: only what is below"),
    pytest.param(KUBE, "*.kube.internal.example", False, id="star and dot: only what is below"),
    pytest.param(KUBE, "nternal.example", False, id="no part of a label"),
    pytest.param(KUBE, "kube", False, id="no beginning of a name"),
    pytest.param(KUBE, "kube.internal.example:6443", True, id="port"),
    pytest.param(KUBE, ".example:6443", True, id="dot and port"),
    pytest.param(KUBE, "kube.internal.example:443", False, id="another port"),
    pytest.param(KUBE, "kube.internal.example:", True, id="empty port"),
    pytest.param("https://kube.internal.example", "kube.internal.example:443", True, id="port of the scheme"),
    pytest.param(KUBE, ":6443", False, id="no host"),
    pytest.param("https://10.1.2.3:6443", "10.1.2.3", True, id="address"),
    pytest.param("https://10.1.2.3:6443", "10.1.2.3:6443", True, id="address and port"),
    pytest.param("https://10.1.2.3:6443", "10.1.2.3:443", False, id="address and another port"),
    pytest.param("https://10.1.2.3:6443", "10.0.0.0/8", True, id="network"),
    pytest.param("https://10.1.2.3:6443", "10.9.9.9/8", True, id="network by any address of it"),
    pytest.param("https://11.1.2.3:6443", "10.0.0.0/8", False, id="another network"),
    pytest.param("https://10.1.2.3:6443", "10.0.0.0/255.0.0.0", False, id="network by a mask is none in Go"),
    pytest.param("https://10.1.2.3:6443", "10.0.0.0/8:6443", False, id="a network has no port"),
    pytest.param("https://10.1.2.3:6443", "2.3", False, id="an address is below no name"),
    pytest.param("https://10.1.2.3:6443", ".3", False, id="an address is below no dot"),
    pytest.param("https://[fd00::1]:6443", "fd00::1", True, id="IPv6"),
    pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", True, id="IPv6 and port"),
    pytest.param("https://[fd00::1]:6443", "[fd00::1]:443", False, id="IPv6 and another port"),
    pytest.param("https://[fd00::1]:6443", "[fd00::1]", False, id="IPv6 in brackets without a port is none in Go"),
    pytest.param("https://[fd00:0::0:1]:6443", "FD00::1", True, id="IPv6 in another spelling"),
    pytest.param("https://[fd00::1]:6443", "fd00::/8", True, id="IPv6 network"),
    pytest.param("https://[::ffff:10.1.2.3]:6443", "10.0.0.0/8", True, id="mapped address"),
    pytest.param(KUBE, "10.0.0.0/8", False, id="a name is in no network"),
    pytest.param("https://münchen.example:6443", "xn--mnchen-3ya.example", True, id="a name that is not ASCII"),
]


@pytest.mark.parametrize(("server", "environ", "expected"), RULES)
def test_the_environments_proxy(server: str, environ: dict[str, str], expected: str | None) -> None:
    proxy = environment_proxy(server, environ)
    assert (None if proxy is None else proxy.url) == expected


@pytest.mark.parametrize(("server", "excluded", "direct"), NO_PROXY)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_what_no_proxy_excludes(server: str, excluded: str, direct: bool, variable: str) -> None:
    assert (environment_proxy(server, {"HTTPS_PROXY": P, variable: excluded}) is None) == direct


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("socks5://me:secret@h:1", r"\$HTTPS_PROXY: 'socks5://\.\.\.@h:1': SOCKS proxies are", id="SOCKS"),
        pytest.param("socks5h://h:1", "SOCKS proxies are not supported", id="SOCKS with names"),
        pytest.param(
            "ftp://me:secret@h:1", r"'ftp://\.\.\.@h:1' is not a URL like http://host:3128", id="other scheme"
        ),
        pytest.param("http://h:port", "is not a URL", id="no port"),
        pytest.param("http://h\n:1", "is not a URL", id="line end"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_by_the_variables_name(url: str, reason: str) -> None:
    """Going past a proxy that somebody has configured would send credentials where they should not go."""
    with pytest.raises(ConfigurationError, match=reason) as caught:
        environment_proxy(KUBE, {"HTTPS_PROXY": url})
    assert "secret" not in str(caught.value)
