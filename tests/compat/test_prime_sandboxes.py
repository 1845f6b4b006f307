import asyncio

import pytest

from seatrial.compat.prime_sandboxes import APIError, AsyncSandboxClient, CommandTimeoutError
from seatrial.env.sandbox_values import SandboxRequest


def test_a_client_of_its_own_makes_a_sandbox_and_works_in_it():
    async def work():
        async with AsyncSandboxClient(api_key="none") as client:
            made = await client.create(SandboxRequest(name="own", docker_image="host", environment_vars={"A": "sea"}))
            await client.wait_for_creation(made.id)
            said = await client.execute_command(made.id, "echo $A; exit 3")
            with pytest.raises(CommandTimeoutError, match="sleep 60"):
                await client.execute_command(made.id, "sleep 60", timeout=0.2)
            await client.delete(made.id)
            with pytest.raises(APIError, match="is gone"):
                await client.execute_command(made.id, "true")
            return said.stdout, said.exit_code

    assert asyncio.run(work()) == ("sea\n", 3)
