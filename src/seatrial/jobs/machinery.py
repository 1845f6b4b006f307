"""The one place that opens what trials need: for jobs, for single trials and for environments."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from seatrial.backends.named import make_backend
from seatrial.images.resolver import Say, unheard
from seatrial.jobs.admission import LimitedStarts, cores
from seatrial.jobs.images import open_images
from seatrial.jobs.models import model_access
from seatrial.model.job import ModelOptions, TrialOptions
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.way_out import WayOut
from seatrial.trial.machinery import Machinery

_USUAL = TrialOptions()
_NO_MODEL = ModelOptions()


@asynccontextmanager
async def open_machinery(
    backend: str | SandboxBackend,
    options: TrialOptions = _USUAL,
    model: ModelOptions = _NO_MODEL,
    *,
    say: Say = unheard,
    starting: int | None = None,
) -> AsyncIterator[Machinery]:
    """What trials need, for the length of a block. `backend` is a name, or a backend that somebody else has opened.

    At most `starting` sandboxes of a named backend are made at the same time. Raises UsageError or SandboxError.
    """
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(make_backend(backend)) if isinstance(backend, str) else backend
        way_out = WayOut(options.ca_file, options.proxy)
        images = await stack.enter_async_context(open_images(opened, say, way_out))
        access = await stack.enter_async_context(model_access(model, options.ca_file))
        limited = LimitedStarts(opened, starting or 2 * cores()) if isinstance(backend, str) else opened
        yield Machinery(limited, images, access)
