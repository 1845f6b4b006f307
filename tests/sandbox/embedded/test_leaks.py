"""Nothing of the host is seen from inside: no descriptor, no variable, no private file, no network."""

import json
import os
import random
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from seatrial.sandbox.api import ExecSpec
from tests.conftest import sampled
from tests.sandbox.embedded.support import MODES, Box, children, descriptors, needs_python, needs_root, open_box, python
from tests.sandbox.embedded.support import shell as sh

pytestmark = [needs_root, needs_python]

# What an ordinary user of the host may not read must not be readable for the root of a sandbox either.
SHOWN_FOLDERS = ("/usr", "/etc", "/opt", "/var/lib/dpkg", "/var/lib/apt", "/var/cache/debconf")  # or a part of them
CONNECT = """
import errno, json, socket, sys
outcomes = {}
for host, port in json.loads(sys.argv[1]):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as client:
            client.settimeout(20)
            try:
                client.connect((host, port))
                client.send(b"x")
                client.recv(1)
                outcomes[f"{host} {kind.name}"] = "it worked"
            except TimeoutError:
                outcomes[f"{host} {kind.name}"] = "it hung"
            except OSError as error:
                outcomes[f"{host} {kind.name}"] = errno.errorcode[error.errno]
print(json.dumps(outcomes))
"""
AT_ONCE = {"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EACCES"}


@pytest.fixture(scope="module")
def secret() -> Iterator[str]:
    """A word that is in a variable of our environment and in private files of the host, made before the sandbox is."""
    word = f"secret{secrets.token_hex(8)}"
    os.environ["SEATRIAL_TEST_SECRET"] = word
    folder = Path(f"/opt/{word}")
    closed = folder / "closed"
    closed.mkdir(parents=True)
    for path in (folder / "private", closed / "open", Path(f"/root/{word}"), Path(f"/etc/{word}"), folder / "public"):
        path.write_text(word)
    (folder / "private").chmod(0o600)
    Path(f"/etc/{word}").chmod(0o640)
    closed.chmod(0o700)
    yield word
    for path in (folder / "private", folder / "public", closed / "open", Path(f"/root/{word}"), Path(f"/etc/{word}")):
        path.unlink()
    closed.rmdir()
    folder.rmdir()
    del os.environ["SEATRIAL_TEST_SECRET"]


@pytest.fixture(scope="module")
def private_files(secret) -> bytes:
    """Those of the host that others may not read, in the folders that are shown; found before the sandbox is made."""
    folders = [folder for folder in SHOWN_FOLDERS if Path(folder).is_dir()]
    return subprocess.check_output(["find", *folders, "-xdev", "-type", "f", "!", "-perm", "-004", "-print0"])


@pytest.fixture(scope="module", params=sampled(MODES))
def box(request, secret, private_files) -> Iterator[Box]:
    with open_box(request.param) as opened:
        yield opened


@pytest.mark.parametrize("phase", ["agent", "verifier"])
def test_the_host_s_lists_of_packages_stay_there(box, phase):
    assert box.ask(sh("ls -A /var/lib/apt/lists", phase=phase)) == "partial"


@pytest.mark.parametrize("phase", ["agent", "verifier"])
def test_a_command_has_three_descriptors(box, phase):
    listing = "import os; print({int(n): os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')[:-1]})"
    found = eval(box.ask(python(listing, phase=phase)))  # noqa: S307 - printed by us
    assert found.keys() == {0, 1, 2}
    assert found[0] == "/dev/null"
    assert all(target.startswith("pipe:") for number, target in found.items() if number)


def test_the_first_processes_hold_no_file(box):
    """What they had open would live as long as the sandbox, and so would whatever is behind it."""
    first = [pid for pid in children(os.getpid()) if nested_pids(pid)[-1] == "1" and len(nested_pids(pid)) > 2]
    assert len(first) >= 2  # other tests may have sandboxes of their own in this process
    for pid in first:
        for number, target in descriptors(pid).items():
            assert target == "/dev/null" or not target.startswith("/"), (pid, number, target)


def nested_pids(pid: int) -> list[str]:
    """The numbers a process has in each pid namespace, outermost first."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith("NSpid:"))


@pytest.mark.parametrize("phase", ["agent", "verifier"])
def test_no_variable_and_no_argument_of_ours(box, secret, phase):
    assert (
        box.exec(sh("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | grep -a secret[0-9a-f]", phase=phase)).stdout
        == b""
    )
    variables = box.ask(ExecSpec(("env",), phase=phase)).splitlines()
    own = {"TMPDIR"} if phase == "verifier" else set()
    assert {line.partition("=")[0] for line in variables} == {"PATH", "HOME", "USER", *own}


def test_private_files_of_the_host_are_not_there(box, secret):
    assert box.ask(sh(f"ls -A /root /home /mnt /srv; ls /opt/{secret}; cat /opt/{secret}/public")).splitlines() == [
        "/home:", "", "/mnt:", "", "/root:", "", "/srv:", "public", secret,
    ]  # fmt: skip
    script = f"cat /etc/gshadow /etc/{secret} /root/{secret} /opt/{secret}/private /opt/{secret}/closed/open"
    assert box.exec(sh(script)).stdout == b""
    assert {row.split(":")[1] for row in box.ask(sh("cat /etc/shadow")).splitlines()} == {"*"}


def test_what_others_may_not_read_is_readable_for_nobody_inside(box, private_files, secret):
    """Every such file, not only those somebody thought of; but there is a table of passwords in place of the host's."""
    assert secret.encode() in private_files
    code = "import os, sys\nfor path in sys.stdin.read().split('\\0'):\n    if os.path.isfile(path): print(path)"
    assert box.ask(python(code, stdin=private_files)) == "/etc/shadow"


def test_services_of_the_host_behind_a_file(box, secret):
    """A socket below a folder that is shown cannot be connected to, whatever its mode."""
    path = Path(f"/opt/{secret}/socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        try:
            path.chmod(0o777)
            listener.listen()
            code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
            assert box.exec(python(code)).exit_code != 0
        finally:
            path.unlink()


def test_services_of_the_host_behind_an_abstract_name(box, secret):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{secret}")
        listener.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{secret}')"
        assert b"ConnectionRefused" in box.exec(python(code)).stderr


@contextmanager
def listening() -> Iterator[int]:
    """Ports of the host, one number for TCP and UDP, on every address it has.

    None that the kernel gives to clients: one inside that got the same number would reach itself.
    """
    with ExitStack() as stack:
        for port in random.sample(range(15_000, 30_000), 100):
            with suppress(OSError):
                server = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
                stack.enter_context(server)
                datagrams = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
                datagrams.bind(("::", port))
                break
        yield port


def own_addresses() -> set[str]:
    """The addresses of the host that a packet to elsewhere would come from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return set()
        return {probe.getsockname()[0]}


@pytest.mark.parametrize("phase", ["agent", "verifier"])
def test_no_address_can_be_reached_and_every_attempt_ends_at_once(box, phase):
    with listening() as port:
        targets = ["127.0.0.1", "::1", "0.0.0.0", "192.0.2.1", "169.254.169.254", "2001:db8::1", *own_addresses()]
        arguments = json.dumps([(host, port) for host in targets])
        outcomes = json.loads(box.ask(python(CONNECT, arguments, phase=phase)))
    assert set(outcomes.values()) <= AT_ONCE, outcomes
    assert len(outcomes) == 2 * len(targets)


def test_no_network_device_but_loopback(box):
    assert box.ask(sh("ls /sys/class/net; cat /proc/net/dev | tail -n +3 | cut -d: -f1")).split() == ["lo", "lo"]
    assert box.ask(sh("tail -n +2 /proc/net/route; cat /proc/net/arp | tail -n +2")) == ""


def test_names_cannot_be_looked_up_and_that_ends_at_once(box):
    started = time.monotonic()
    result = box.exec(python("import socket; socket.getaddrinfo('seatrial.invalid', 80)"))
    assert b"gaierror" in result.stderr
    assert time.monotonic() - started < 20


def test_our_umask_is_not_the_sandbox_s(secret):
    """Directories a trial needs are open to every user inside, however careful the user outside is."""
    look = """if 1:
        import asyncio, os
        from seatrial.sandbox.api import ExecSpec, SandboxSpec
        from seatrial.sandbox.embedded.backend import EmbeddedBackend
        os.umask(0o077)
        async def main():
            async with EmbeddedBackend("userns") as backend:
                sandbox = await backend.create(SandboxSpec())
                script = "umask; for f in /app /logs /logs/agent /etc/hosts /tmp; do ls -ld $f | cut -c 1-10; done"
                print((await sandbox.exec(ExecSpec(("sh", "-c", script)))).stdout.decode())
        asyncio.run(main())
    """
    seen = subprocess.check_output([sys.executable, "-c", look], text=True, timeout=60).split()
    assert seen == ["0022", "drwxr-xr-x", "drwxr-xr-x", "drwxrwxrwx", "-rw-r--r--", "drwxrwxrwt"]
