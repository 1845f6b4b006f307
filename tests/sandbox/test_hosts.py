"""Which hosts match which patterns, and which addresses stay closed whatever a name says."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.sandbox.hosts import (
    HostPolicy,
    address_refusal,
    is_allowed,
    is_listed,
    is_reachable_address,
    normalise,
    parse_authority,
    parse_host,
    parse_patterns,
)

labels = st.from_regex(r"[a-z0-9_]([a-z0-9_-]{0,8}[a-z0-9_])?", fullmatch=True)
names = st.builds(
    lambda parts, last: ".".join([*parts, last]),
    st.lists(labels, max_size=4),
    st.from_regex("[a-z]{2,6}", fullmatch=True),
)
ports = st.integers(1, 65535)
addresses = st.ip_addresses()

SPECIAL = [
    *("127.0.0.1", "127.255.255.254", "::1", "0.0.0.0", "0.1.2.3", "::", "169.254.0.1", "fe80::1", "fe80::1%lo"),
    *("224.0.0.1", "239.1.1.1", "ff02::1", "255.255.255.255", "240.0.0.1", "::7f00:1"),
    *("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::7f00:1", "2001:0:7f00:1::"),
]
PRIVATE = [
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fdff::1", "fec0::1"),
    *("::ffff:10.0.0.1", "64:ff9b::a00:1"),
]
PUBLIC = ["192.0.2.7", "8.8.8.8", "172.32.0.1", "2001:db8::7", "2600::1", "::ffff:8.8.8.8"]


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("example.org", "example.org"),
        ("Example.ORG", "eXample.org."),
        ("example.org.", "example.org"),
        ("localhost", "LOCALHOST"),
        ("my_bucket.s3.example", "my_bucket.s3.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "BÜCHER.example"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
        ("*.example.org", "a.example.org"),
        ("*.example.org", "a.b.c.Example.org."),
        ("*.bücher.example", "www.xn--bcher-kva.example"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "::ffff:192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.0/120", "192.0.2.7"),
        ("192.0.2.0/24", "192.0.2.255"),
        ("2001:db8::7", "2001:DB8:0::7"),
        ("[2001:db8::7]", "[2001:db8::7]"),
        ("2001:db8::/32", "2001:db8:ffff::1"),
        ("0.0.0.0/0", "198.51.100.1"),
    ],
)
def test_a_host_matches(pattern, host):
    patterns = parse_patterns(["other.example", pattern])
    assert is_allowed(host, 443, patterns)
    assert patterns[1].text == pattern


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("example.org", "www.example.org"),
        ("example.org", "example.org.evil.test"),
        ("example.org", "notexample.org"),
        ("example.org", "example.org.."),
        ("*.example.org", "example.org"),
        ("*.example.org", "notexample.org"),
        ("*.example.org", ".example.org"),
        ("*.example.org", "a..example.org"),
        ("*.example.org", "a.example.org:443"),
        ("192.0.2.7", "192.0.2.8"),
        ("192.0.2.0/24", "192.0.3.0"),
        ("127.0.0.0/8", "127.1"),
        ("127.0.0.0/8", "0x7f000001"),
        ("127.0.0.0/8", "2130706433"),
        ("127.0.0.0/8", "0177.0.0.1"),
        ("127.0.0.0/8", "localhost"),
        ("::/0", "192.0.2.7"),
        ("strasse.example", "straße.example"),
        ("example.org", ""),
        ("example.org", "a" * 100_000 + ".example.org"),
        ("example.org", "exam\x00ple.org"),
        ("example.org", "example.org\r\nHost: evil.test"),
    ],
)
def test_a_host_does_not_match(pattern, host):
    assert not is_allowed(host, 443, parse_patterns([pattern]))


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("example.org:443", "example.org"),
        ("*.example.org:443", "a.example.org"),
        ("192.0.2.7:443", "192.0.2.7"),
        ("192.0.2.0/24:443", "192.0.2.9"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("[2001:db8::/32]:443", "2001:db8::7"),
        ("2001:db8::/32:443", "2001:db8::7"),
    ],
)
def test_a_port_restricts(pattern, host):
    patterns = parse_patterns([pattern])
    assert is_allowed(host, 443, patterns)
    assert not is_allowed(host, 80, patterns)


@pytest.mark.parametrize(
    "pattern",
    [
        *("", " ", ".", "*", "*:443", "*.", "*example.org", "a.*.org", "*.*.org", "**.org", "-a.org", "a-.org"),
        *("https://example.org", "example.org/", "example.org/path", "user@example.org", " example.org"),
        *("example.org:", "example.org:0", "example.org:65536", "example.org:http", "example.org:٤٤٣", "[::1]:0"),
        *("192.0.2.256", "192.0.2", "0x7f.1", "1234", "*.192.0.2.7", "192.0.2.0/33", "192.0.2.0/", "[example.org]"),
        *("::1]:80", "[::1", "fe80::1%eth0", "2001:db8::/129", "192.0.2.0/255.255.255.0"),
        *("straße.example", "a" * 64 + ".org", "a." * 127 + "org"),
    ],
)
def test_an_invalid_pattern_is_named(pattern):
    with pytest.raises(UsageError) as caught:
        parse_patterns(["example.org", pattern])
    assert repr(pattern) in str(caught.value)


def test_an_invalid_pattern_is_explained():
    with pytest.raises(UsageError, match=r"expected a name \(example\.org\)"):
        parse_patterns(["https://example.org"])
    with pytest.raises(UsageError, match=r"the range is written 192\.0\.2\.0/24"):
        parse_patterns(["192.0.2.7/24"])
    with pytest.raises(UsageError, match='"public"'):
        parse_patterns(["*"])
    with pytest.raises(UsageError, match="between 1 and 65535"):
        parse_patterns(["example.org:65536"])


@pytest.mark.parametrize("address", SPECIAL)
@pytest.mark.parametrize(
    "policy",
    [
        HostPolicy("allowlist", parse_patterns(["*.example.org", "0.0.0.0/0", "::/0"])),
        HostPolicy("public", parse_patterns(["10.0.0.0/8"])),
        HostPolicy("public", allow_private=True),
    ],
)
def test_special_addresses_are_closed_in_every_mode(address, policy):
    assert not is_reachable_address(ip_address(address), 443, policy)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_closed_only_to_public(address):
    assert not is_reachable_address(ip_address(address), 443, HostPolicy("public"))
    assert is_reachable_address(ip_address(address), 443, HostPolicy("public", allow_private=True))
    assert is_reachable_address(ip_address(address), 443, HostPolicy("allowlist"))


@pytest.mark.parametrize("address", PUBLIC)
def test_other_addresses_are_open(address):
    assert is_reachable_address(ip_address(address), 443, HostPolicy("public"))
    assert is_reachable_address(ip_address(address), 443, HostPolicy("allowlist"))


@pytest.mark.parametrize("mode", ["allowlist", "public"])
@pytest.mark.parametrize("address", [address for address in SPECIAL + PRIVATE if "%" not in address])
def test_what_is_listed_itself_is_open_on_the_listed_port(mode, address):
    policy = HostPolicy(mode, parse_patterns([f"[{address}]:8080"]))
    assert is_reachable_address(ip_address(address), 8080, policy)
    assert is_listed(ip_address(address), 8080, policy.patterns)
    if address in SPECIAL:
        assert not is_reachable_address(ip_address(address), 22, policy)


def test_a_range_opens_only_what_it_lies_in():
    policy = HostPolicy("public", parse_patterns(["127.0.0.0/9", "169.254.0.0/16", "10.1.0.0/16", "fc00::/6"]))
    opened = ["127.0.0.1", "169.254.1.1", "10.1.2.3"]
    closed = ["127.128.0.1", "169.254.169.254", "10.2.0.1", "fc00::1"]
    assert all(is_reachable_address(ip_address(text), 1, policy) for text in opened)
    assert not any(is_reachable_address(ip_address(text), 1, policy) for text in closed)
    assert not is_listed(ip_address("10.1.2.3"), 1, policy.patterns)


def test_a_refusal_names_address_and_kind():
    reasons = {text: address_refusal(ip_address(text), 1, HostPolicy("public")) for text in ["127.0.0.1", "10.0.0.1"]}
    assert reasons == {
        "127.0.0.1": "127.0.0.1 is a loopback address",
        "10.0.0.1": "10.0.0.1 is a private address",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example.org:443", ("example.org", 443)),
        ("EXAMPLE.org.", ("example.org", 80)),
        ("[::1]:8080", (IPv6Address("::1"), 8080)),
        ("[::ffff:192.0.2.7]", (IPv4Address("192.0.2.7"), 80)),
        *((text, None) for text in ["", ":80", "a:", "a:0", "a:65536", "a:b", "::1", "[::1", "u@a", "a/b", "1.2:80"]),
    ],
)
def test_an_authority(text, expected):
    assert parse_authority(text, 80) == expected


def test_an_authority_may_need_its_port():
    assert parse_authority("example.org", None) is None
    assert parse_authority("example.org:443", None) == ("example.org", 443)


@given(names, ports, ports)
def test_a_name_matches_itself_and_what_is_below(name, port, other):
    exact, below = parse_patterns([f"{name}:{port}", f"*.{name}"])
    assert is_allowed(name.upper() + ".", port, [exact])
    assert is_allowed(name, other, [exact]) == (port == other)
    assert not is_allowed(name, port, [below])
    assert is_allowed(f"x.{name}", port, [below])
    assert not is_allowed(f"x{name}", port, [exact, below])
    assert parse_host(name) == name


@given(names, names)
def test_different_names_do_not_match(one, other):
    assert is_allowed(one, 1, parse_patterns([other])) == (one == other)
    assert is_allowed(one, 1, parse_patterns([f"*.{other}"])) == one.endswith(f".{other}")


@given(addresses, st.integers(0, 32), ports)
def test_an_address_matches_itself_and_its_ranges(address, prefix, port):
    bits = prefix if address.version == 4 else prefix * 4
    start = int(address) >> (address.max_prefixlen - bits) << (address.max_prefixlen - bits)
    patterns = parse_patterns([f"[{address}]:{port}", f"{type(address)(start)}/{bits}"])
    assert is_allowed(str(address), port, patterns[:1])
    if address == normalise(address):
        assert is_allowed(str(address), port, patterns[1:])


@given(addresses, st.sampled_from(["allowlist", "public"]))
def test_what_is_open_is_ordinary(address, mode):
    if is_reachable_address(address, 1, HostPolicy(mode)):
        plain = normalise(address)
        kinds = [plain.is_loopback, plain.is_link_local, plain.is_unspecified, plain.is_multicast]
        assert not any(kinds)


@given(st.text(), st.text(), ports)
@example("0.0.0.0/0", "0", 1)
def test_whatever_is_written_is_decided(pattern, host, port):
    assert isinstance(is_allowed(host, port, parse_patterns(["example.org", "192.0.2.0/24"])), bool)
    try:
        (parsed,) = parse_patterns([pattern])
    except UsageError as error:
        assert repr(pattern) in str(error)
    else:
        assert parsed.text == pattern
