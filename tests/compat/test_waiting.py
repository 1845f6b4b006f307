"""SandboxClient, which waits: in plain code, where an event loop runs, and for several clients of the same sandbox."""

import asyncio

import pytest

from seatrial.compat.prime_sandboxes import APIError, CommandTimeoutError
from seatrial.compat.waiting import SandboxClient
from seatrial.env.sandbox_values import SandboxRequest


def test_methods_wait_and_clients_know_the_same_sandboxes(tmp_path):
    client = SandboxClient(api_key="none")
    made = client.create(SandboxRequest(name="own", docker_image="host"))
    client.wait_for_creation(made.id)
    (tmp_path / "a.txt").write_text("sea")
    client.upload_file(made.id, "/tmp/a.txt", str(tmp_path / "a.txt"))

    async def on_a_loop():
        return SandboxClient().execute_command(made.id, "cat /tmp/a.txt; exit 3")

    said = asyncio.run(on_a_loop())
    assert (said.stdout, said.exit_code) == ("sea", 3)
    with pytest.raises(CommandTimeoutError, match="sleep 60"):
        client.execute_command(made.id, "sleep 60", timeout=0.1)
    SandboxClient().bulk_delete(sandbox_ids=[made.id])
    with pytest.raises(APIError, match="is gone"):
        client.execute_command(made.id, "true")
    with pytest.raises(AttributeError, match="fly"):
        client.fly()
