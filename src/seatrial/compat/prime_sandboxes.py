"""The client of Prime's sandbox service, as far as environments use it, with sandboxes of this machine behind it."""

from types import TracebackType
from typing import Any, Self

from seatrial.env.chat_message import AttributeTable
from seatrial.env.rollout_sandboxes import RolloutSandboxes
from seatrial.env.sandbox_client import SandboxClient as OwnClient
from seatrial.env.sandbox_settings import SandboxSettings
from seatrial.env.sandbox_values import CommandResult
from seatrial.errors import SandboxError

APIError = SandboxError


class CommandTimeoutError(SandboxError):
    """The time of a command ran out."""


class SandboxTimeoutError(SandboxError):
    """The time of a sandbox ran out."""


class SandboxNotRunningError(SandboxError):
    """A sandbox is gone."""


class SandboxOOMError(SandboxError):
    """A sandbox had too little memory."""


class UploadTimeoutError(SandboxError):
    """Nothing raises it: files are copied on this machine."""


class DownloadTimeoutError(SandboxError):
    """Nothing raises it: files are copied on this machine."""


class SandboxFileNotFoundError(SandboxError, FileNotFoundError):
    """A file is not in a sandbox."""


class AdvancedConfigs(AttributeTable):
    """Settings of the service; they have no effect here."""


class FileUploadResponse(AttributeTable):
    """What an upload came to."""


class APIClient:
    """The service's connection: there is none here, and none is needed."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        pass


class AsyncSandboxClient(OwnClient):
    """Makes sandboxes on this machine, and works in them by their ids. Its arguments have no effect."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        super().__init__()
        self._sandboxes = RolloutSandboxes(SandboxSettings(), self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the backend."""
        await self._sandboxes.close()

    async def execute_command(self, sandbox_id: str, command: str, *args: Any, **options: Any) -> CommandResult:
        """Run a shell command to its end. Raises CommandTimeoutError when its time runs out."""
        result = await super().execute_command(sandbox_id, command, *args, **options)
        if result.timed_out:
            raise CommandTimeoutError(f"the time of a command ran out in {sandbox_id}: {command[:200]}")
        return result
