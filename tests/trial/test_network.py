"""Whom agent and verifier reach, phase by phase."""

import http.server
import threading

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.model.job import TrialOptions
from seatrial.model.task import NetworkPolicy
from seatrial.sandbox.api import Network
from seatrial.testing.fake import ALL_POWERFUL
from seatrial.trial.place import choose_network
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import python_command

FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:{port}/", timeout=20).read().decode())
except OSError as error:
    print("refused")
"""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the host")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port():
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.whole
@needs_root
@needs_python
@pytest.mark.parametrize("network", ['network_mode = "no-network"', 'network_mode = "public"'])
def test_nobody_reaches_a_service_of_this_machine(desk, port, network):
    fetch = python_command(FETCH.format(port=port))
    files = {"tests/test.sh": f"#!/bin/sh\n{fetch}\n"}
    ran = desk.attack(fetch, files=files, toml=f"[environment]\n{network}\n")
    assert ran.text("agent/stdout.txt") == "refused\n"
    assert ran.text("verifier/stdout.txt") == "refused\n"


@needs_root
@needs_python
def test_a_phase_may_be_allowed_what_the_other_is_not(desk, port):
    """The verifier alone may reach the host, through our proxy, because the operator permits private hosts."""
    fetch = python_command(FETCH.format(port=port))
    toml = (
        '[environment]\nnetwork_mode = "no-network"\n'
        '[verifier]\nnetwork_mode = "allowlist"\nallowed_hosts = ["127.0.0.1"]\n'
    )
    files = {"tests/test.sh": f"#!/bin/sh\nunset no_proxy NO_PROXY\n{fetch}\n"}
    ran = desk.attack(fetch, files=files, toml=toml, private_hosts="allow")
    assert ran.text("agent/stdout.txt") == "refused\n"
    assert ran.text("verifier/stdout.txt") == "the host\n"
    assert ran.record.sandbox.network == "none"


@needs_root
def test_private_hosts_are_refused_unless_somebody_permits_them(desk):
    toml = '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["10.0.0.0/8"]\n'
    ran = desk.attack("true", toml=toml)
    assert (ran.failure.phase, ran.failure.cause) == ("setup", "HostUnsupportedError")
    assert "10.0.0.0/8" in ran.failure.message


PRIVATE = """
localhost LOCALHOST. a.localhost *.localhost db.internal x.local localhost:80 127.0.0.1 127.0.0.1:8080 ::1 [::1]:80
::ffff:127.0.0.1 169.254.169.254 192.168.0.0/16 0.0.0.0/0 8.0.0.0/5 ::/0 fd00::/8
"""


@pytest.mark.parametrize("host", PRIVATE.split())
def test_names_of_private_hosts(host):
    policy = NetworkPolicy(mode="allowlist", allowed_hosts=("example.org", host))
    with pytest.raises(HostUnsupportedError, match="allow-private-hosts"):
        choose_network(policy, TrialOptions(), ALL_POWERFUL)
    allowed = choose_network(policy, TrialOptions(private_hosts="allow"), ALL_POWERFUL)
    assert allowed == Network("allowlist", ("example.org", host))


@pytest.mark.parametrize("host", ["example.org", "*.example.org", "8.8.8.8", "2001:4860::/32", "1.1.1.0/24"])
def test_names_of_public_hosts(host):
    policy = NetworkPolicy(mode="allowlist", allowed_hosts=(host,))
    assert choose_network(policy, TrialOptions(), ALL_POWERFUL).hosts == (host,)


def test_an_operator_may_close_every_network():
    policy = NetworkPolicy(mode="allowlist", allowed_hosts=("localhost",))
    assert choose_network(policy, TrialOptions(network="none"), ALL_POWERFUL) == Network("none")
