"""Which file has certificates, and what is taken from it."""

import asyncio
import ssl

import pytest

from seatrial.errors import JobError
from seatrial.sandbox.trust import client_trust, named_ca, read_ca
from tests.sandbox.proxying import mirror, origin
from tests.sandbox.test_proxy import certificate  # noqa: F401 - a fixture

BLOCK = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"


def test_certificates_are_taken_and_keys_are_not(tmp_path):
    path = tmp_path / "a.pem"
    key = "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----"
    path.write_text("\n".join(["# words", BLOCK.format("one"), key, BLOCK.format("two")]))
    assert read_ca(str(path)).decode() == f"{BLOCK.format('one')}\n{BLOCK.format('two')}\n"


def test_what_has_none_is_refused_with_an_example(tmp_path):
    (tmp_path / "a.pem").write_text("nothing")
    with pytest.raises(JobError, match=r"a.pem: it has no certificates; expected a PEM file"):
        read_ca(str(tmp_path / "a.pem"))
    with pytest.raises(JobError, match=r"none.pem: it cannot be read: No such file"):
        read_ca(str(tmp_path / "none.pem"))


def test_certificates_that_a_machine_names_by_its_variables(tmp_path):
    (tmp_path / "a.pem").write_text(BLOCK.format("one"))
    assert named_ca({"SSL_CERT_FILE": str(tmp_path), "NODE_EXTRA_CA_CERTS": str(tmp_path / "a.pem")}) is not None
    assert named_ca({"SSL_CERT_FILE": "", "PIP_CERT": str(tmp_path / "none.pem"), "HOME": str(tmp_path)}) is None


def test_our_clients_refuse_what_is_no_certificate(tmp_path):
    (tmp_path / "a.pem").write_text(BLOCK.format("bm9uZQ=="))
    with pytest.raises(JobError, match="its certificates cannot be used"):
        client_trust(str(tmp_path / "a.pem"))


def test_without_a_file_our_clients_trust_what_the_machine_does():
    assert client_trust(None) is True
    assert not isinstance(client_trust(None), ssl.SSLContext)


def test_our_clients_trust_a_server_by_the_file_and_not_without(certificate):  # noqa: F811 - a fixture that is imported
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)

    async def greet(trust: ssl.SSLContext | bool) -> bytes:
        async with asyncio.timeout(20), origin(mirror, tls) as port:
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=trust, server_hostname="origin.test"
                )
            except ssl.SSLCertVerificationError:
                return b"not trusted"
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            answer = await reader.readuntil(b"\r\n")
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(greet(client_trust(str(certificate)))) == b"HTTP/1.1 200 OK\r\n"
    assert asyncio.run(greet(ssl.create_default_context())) == b"not trusted"
