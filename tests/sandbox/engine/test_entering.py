"""Whose namespaces are entered: never those of a process that has come to a container's number."""

import asyncio
import os

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.division import divide
from seatrial.sandbox.engine.entering import share_folders


@pytest.mark.parametrize("found", [[None], [os.getpid(), None], [os.getpid(), 1]])
def test_a_process_that_is_not_the_containers_any_more_is_not_entered(found):
    with pytest.raises(SandboxError, match="folders of services cannot be shared"):
        asyncio.run(share_folders(os.getpid, iter(found).__next__, divide("/app").copied, "/app"))
