"""Where clouds hand out credentials is recognised in each spelling, and nothing else is."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.addresses import why_never_called

METADATA = int(IPv4Address("169.254.169.254"))
INVERTED = METADATA ^ 0xFFFF_FFFF
SPELLINGS = {
    "dotted": "169.254.169.254",
    "one number": str(METADATA),
    "hexadecimal": hex(METADATA),
    "octal": "0251.0376.0251.0376",
    "two parts": "169.16689662",
    "three parts": "0xa9.254.43518",
    "mapped": "::ffff:169.254.169.254",
    "mapped, in full": "0:0:0:0:0:ffff:a9fe:a9fe",
    "compatible": "::169.254.169.254",
    "translated": "::ffff:0:169.254.169.254",
    "NAT64": "64:ff9b::169.254.169.254",
    "NAT64 of one's own, 96 bits": "64:ff9b:1::169.254.169.254",
    "NAT64 of one's own, 48 bits": "64:ff9b:1:a9fe:a9:fe00::",
    "6to4": "2002:a9fe:a9fe::1",
    "Teredo, client": str(IPv6Address((0x2001_0000 << 96) | INVERTED)),
    "Teredo, server": str(IPv6Address((0x2001_0000 << 96) | (METADATA << 64))),
    "ISATAP": "2001:db8::5efe:169.254.169.254",
    "ISATAP, a global address": "2001:db8::200:5efe:169.254.169.254",
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_each_spelling_of_a_link_local_address_is_recognised(text: str) -> None:
    assert why_never_called(text) == "is link-local"


@pytest.mark.parametrize("text", ["169.254.0.1", "fe80::1", "fe80::1%eth0", "febf::1", "2002:a9fe:1::"])
def test_all_of_the_range_is_link_local(text: str) -> None:
    assert why_never_called(text) == "is link-local"


@pytest.mark.parametrize(
    "text",
    [
        "fd00:ec2::254",
        "fd00:ec2::254%eth0",
        "FD00:0EC2:0::254",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:100.100.100.200",
        "64:ff9b::6464:64c8",
        "1684301000",
    ],
)
def test_addresses_of_metadata_that_are_not_link_local_are_recognised(text: str) -> None:
    assert why_never_called(text) == "is where a cloud hands out credentials of the machine"


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "::1",
        "::",
        "10.0.0.1",
        "169.253.1.1",
        "169.255.0.1",
        "100.100.100.201",
        "fec0::1",
        "fd00:ec2::253",
        "64:ff9b::10.0.0.1",
        "2002:a00:1::1",
        "2001:db8::a9fe:a9fe",
        "extender",
        "extender.svc",
        "",
        "1.2.3.4.5",
    ],
)
def test_other_hosts_may_be_called(text: str) -> None:
    assert why_never_called(text) == ""


@given(st.ip_addresses(v=4))
def test_an_address_inside_ipv6_is_judged_as_it_is_outside(address: IPv4Address) -> None:
    bits = int(address)
    inside = [0xFFFF << 32, 0x64_FF9B << 96, 0xFFFF << 48]
    spelled = [IPv6Address(prefix | bits) for prefix in inside] + [IPv6Address((0x2002 << 112) | (bits << 80))]
    assert {why_never_called(str(each)) for each in spelled} == {why_never_called(str(address))}
