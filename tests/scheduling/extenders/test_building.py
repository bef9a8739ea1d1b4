"""From the configuration to extenders: what TLS checks, what is sent, and what is told."""

from base64 import b64encode
from typing import Any

import pytest
import structlog

from kscheduler.api.core import Pod
from kscheduler.client.access.tls import TLSFiles
from kscheduler.config.durations import seconds
from kscheduler.config.types import Extender, ExtenderTLSConfig
from kscheduler.scheduling.extenders.addresses import address_of
from kscheduler.scheduling.extenders.bind_outcomes import UNKNOWN_PLACE, PodPlace
from kscheduler.scheduling.extenders.extender_set import ExtenderSet
from tests.builders import pod_info
from tests.client.http.raw_server import Peer, raw_server
from tests.scheduling.extenders.fake_extenders import NamedObjects

PEM = "-----BEGIN CERTIFICATE-----"
DATA = b64encode(PEM.encode()).decode()


@pytest.mark.parametrize(
    ("enable_https", "tls", "expected"),
    [
        (False, {}, TLSFiles()),
        (True, None, TLSFiles(verify=False)),
        (True, {}, TLSFiles(verify=False)),
        (True, {"server_name": "x"}, TLSFiles(verify=False, server_name="x")),
        (True, {"ca_file": "ca"}, TLSFiles(authority="ca")),
        (True, {"ca_file": "ca", "ca_data": DATA}, TLSFiles(authority_pem=PEM)),
        (False, {"insecure": True}, TLSFiles(verify=False)),
        (False, {"cert_file": "c", "key_file": "k"}, TLSFiles(certificate="c", key="k")),
        (False, {"cert_file": "c", "key_data": DATA}, TLSFiles(certificate="c", key_pem=PEM)),
        (False, {"cert_file": "c", "cert_data": DATA, "key_file": "k"}, TLSFiles(certificate_pem=PEM, key="k")),
        (False, {"cert_file": "c"}, TLSFiles()),
        (False, {"key_file": "k"}, TLSFiles()),
    ],
)
def test_what_tls_checks(enable_https: bool, tls: dict[str, Any] | None, expected: TLSFiles) -> None:
    given = None if tls is None else ExtenderTLSConfig(**tls)
    assert address_of(Extender("https://x", enable_https=enable_https, tls_config=given), 0).tls == expected


def test_an_address_shows_no_secret_and_names_its_fields() -> None:
    extender = Extender(
        "https://user:s3cret@x/root", http_timeout=seconds(7), tls_config=ExtenderTLSConfig(ca_data=DATA, cert_file="c")
    )
    address = address_of(extender, 2)
    assert (address.shown, address.url_prefix) == ("https://x/root", "https://user:s3cret@x/root")
    assert address.timeout_seconds == 7
    assert address.places.authority == "extenders[2].tlsConfig.caData"
    assert address.places.identity == "extenders[2].tlsConfig.certFile: c"


async def nowhere(_pod: Pod) -> PodPlace:
    return UNKNOWN_PLACE


def set_of(*extenders: Extender, **environ: str) -> ExtenderSet:
    return ExtenderSet(extenders, NamedObjects(), may_bind=lambda: True, place_of=nowhere, environ=environ)


async def test_a_configured_extender_is_queried_over_http_and_not_after_it_is_closed() -> None:
    heads: list[bytes] = []

    async def filter_all(peer: Peer) -> None:
        while True:
            request = await peer.request()
            heads.append(request.partition(b" HTTP/1.1")[0])
            body = b'{"NodeNames":["b"],"FailedNodes":{"a":"busy"}}'
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with raw_server(filter_all) as server:
        configured = Extender(f"{server.url}/scheduler/", filter_verb="filter", node_cache_capable=True)
        extenders = set_of(configured)
        try:
            answers = await extenders.http_extenders.about_nodes(pod_info("p"), ["a", "b"])
        finally:
            await extenders.close()
        assert answers.left == {"b"}
        assert heads == [b"POST /scheduler/filter"]
        answers = await extenders.http_extenders.about_nodes(pod_info("p"), ["a", "b"])
        assert "no longer configured" in answers.status.message


def test_a_proxy_that_is_not_used_is_reported_once_for_each_extender() -> None:
    with structlog.testing.capture_logs() as lines:
        set_of(Extender("http://user:s3cret@x/y"), Extender("http://127.0.0.1"), HTTP_PROXY="http://p").announce()
    assert [(line["event"], line["extender"], line["variable"]) for line in lines] == [
        ("extender_proxy_not_used", "http://x/y", "HTTP_PROXY")
    ]
