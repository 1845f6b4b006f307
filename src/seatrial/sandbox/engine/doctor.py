"""Whether a container engine answers on this machine, and what it can do."""

from seatrial.errors import SeatrialError
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.endpoint import Engine


async def examine_engine(engine: Engine) -> HostFinding:
    """Whether a daemon answers and what it can do; nothing needs one where our own sandboxes work."""
    try:
        async with EngineBackend(engine) as backend:
            capabilities = await backend.probe()
    except (SeatrialError, OSError) as error:
        detail, _, fix = str(error).partition("; ")
        return HostFinding(
            engine, "missing", f"{detail} (optional)", fix or "nothing: our own sandboxes do not need it"
        )
    if reason := capabilities.missing.get("listen"):
        detail, _, fix = reason.partition("; ")
        return HostFinding(engine, "missing", f"{capabilities.mode} answers, but agents reach no model: {detail}", fix)
    return HostFinding(engine, "works", f"{capabilities.mode} answers (optional)")
