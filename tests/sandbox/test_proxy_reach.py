"""The forward proxy: which names and addresses can be reached through it, and how they are looked up."""

import socket
from ipaddress import ip_address

import pytest

from seatrial.sandbox.api import Network
from seatrial.sandbox.proxy import (
    ForwardProxy,
    ProxyOptions,
    is_own_address,
)
from tests.sandbox.proxying import (
    HERE,
    LISTED,
    ScriptedResolver,
    ask,
    mirror,
    origin,
    request,
    run,
    serving,
    silent,
    status,
)


def test_an_unlisted_name_is_refused_without_a_lookup():
    async def main():
        resolver = ScriptedResolver()
        async with serving(resolver) as (proxy, proxy_port):
            grant = proxy.grant(Network("allowlist", ("*.origin.test:443", "127.0.0.0/8")))
            targets = ["origin.test:443", "a.origin.test:80", "evil.test:443", "[2001:db8::1]:443", "0.0.0.0:80"]
            answers = [await ask(proxy_port, request(f"CONNECT {target} HTTP/1.1", grant)) for target in targets]
            return resolver.asked, targets, answers, grant.attempts

    asked, targets, answers, attempts = run(main())
    assert asked == []
    reasons = [f"{target} is not allowed; allowed: *.origin.test:443, 127.0.0.0/8" for target in targets]
    assert [answer.partition(b"\r\n\r\n")[2].decode() for answer in answers] == [f"{reason}\n" for reason in reasons]
    assert {status(answer) for answer in answers} == {403}
    assert [attempt.refusal for attempt in attempts] == reasons


def test_a_name_is_looked_up_once_and_its_address_checked():
    async def main():
        resolver = ScriptedResolver(origin_test=[HERE, ["127.0.0.2", "169.254.169.254"]])
        async with origin(mirror) as port, serving(resolver) as (proxy, proxy_port):
            grant = proxy.grant(Network("allowlist", ("origin.test", "127.0.0.1")))
            ask_again = request(f"GET http://origin.test:{port}/ HTTP/1.1", grant)
            return [await ask(proxy_port, ask_again), await ask(proxy_port, ask_again)], resolver.asked

    (first, second), asked = run(main())
    assert (status(first), status(second)) == (200, 403)
    assert b"127.0.0.2 is a loopback address; 169.254.169.254 is a link-local address" in second
    assert asked == ["origin.test"] * 2


def test_allowed_addresses_are_tried_in_order():
    async def main():
        resolver = ScriptedResolver(origin_test=[["::1", "127.0.0.9", "::ffff:127.0.0.1"]])
        async with origin(mirror) as port, serving(resolver) as (proxy, proxy_port):
            return await ask(proxy_port, request(f"GET http://origin.test:{port}/ HTTP/1.1", proxy.grant(LISTED)))

    assert status(run(main())) == 200


def test_public_reaches_any_name_but_no_special_address():
    async def main():
        resolver = ScriptedResolver(one_test=[HERE], two_test=[["10.0.0.1"]])
        async with origin(mirror) as port, serving(resolver) as (proxy, proxy_port):
            public, opened = proxy.grant(Network("public")), proxy.grant(Network("public", ("127.0.0.0/8",)))
            hosts = [("one.test", public), ("two.test", public), ("127.0.0.1", public), ("one.test", opened)]
            return [
                await ask(proxy_port, request(f"GET http://{host}:{port}/ HTTP/1.1", grant)) for host, grant in hosts
            ]

    answers = run(main())
    assert [status(answer) for answer in answers] == [403, 403, 403, 200]
    assert b"is not allowed: 127.0.0.1 is a loopback address" in answers[0]
    assert b"is not allowed: 10.0.0.1 is a private address" in answers[1]


def test_other_addresses_of_this_machine_are_closed_too():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no other address")
        own = probe.getsockname()[0]

    async def main() -> bytes:
        async with serving(ScriptedResolver(origin_test=[[own]])) as (proxy, proxy_port):
            grant = proxy.grant(Network("allowlist", ("origin.test", f"{own.split('.')[0]}.0.0.0/8")))
            return await ask(proxy_port, request("GET http://origin.test/ HTTP/1.1", grant))

    answer = run(main())
    assert status(answer) == 403
    assert b"is an address of the machine" in answer


def test_own_addresses_are_known():
    assert is_own_address(ip_address("127.0.0.1"))
    assert not is_own_address(ip_address("192.0.2.1"))


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (HERE, 502, b"127.0.0.1: Connect call failed"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), 502, b"Name or service not known"),
        ([], 502, b"it has no address"),
        (None, 504, b"looking up origin.test took too long"),
    ],
)
def test_what_cannot_be_reached(line, code, reason):
    async def main() -> bytes:
        options = ProxyOptions(connect_timeout_sec=0.2)
        with socket.socket() as bound:
            # Bound but not listening: nobody else can take the port.
            bound.bind(("127.0.0.1", 0))
            target = f"origin.test:{bound.getsockname()[1]}"
            async with serving(ScriptedResolver(origin_test=[line]), options) as (proxy, proxy_port):
                return await ask(proxy_port, request(f"CONNECT {target} HTTP/1.1", proxy.grant(LISTED)))

    answer = run(main())
    assert status(answer) == code
    assert reason in answer


def test_an_address_that_does_not_answer_takes_its_share_of_the_time():
    async def main() -> list[bytes]:
        resolver = ScriptedResolver(origin_test=[["127.0.0.2", "127.0.0.3"], ["127.0.0.2", "127.0.0.1"]])
        async with (
            origin(mirror) as port,
            serving(resolver, ProxyOptions(connect_timeout_sec=0.4)) as (proxy, proxy_port),
        ):
            with silent("127.0.0.2", port), silent("127.0.0.3", port):
                message = request(f"GET http://origin.test:{port}/ HTTP/1.1", proxy.grant(LISTED))
                return [await ask(proxy_port, message) for _ in range(2)]

    never, late = run(main())
    assert status(never) == 504
    assert b"127.0.0.2 took too long; 127.0.0.3 took too long" in never
    assert status(late) == 200


def test_the_system_knows_localhost():
    async def main() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with origin(mirror) as port, ForwardProxy([listener.dup()]) as proxy:
                grant = proxy.grant(Network("allowlist", ("localhost", "127.0.0.0/8", "::1")))
                message = request(f"GET http://localhost:{port}/ HTTP/1.1", grant)
                return await ask(listener.getsockname()[1], message)

    assert status(run(main())) == 200
