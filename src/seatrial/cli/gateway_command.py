"""`seatrial gateway`: the model gateway alone, to try an agent or an upstream without tasks and sandboxes."""

import asyncio
import contextlib
import ipaddress
import json
import os
import shlex
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click

from seatrial.agents.environ import model_variables
from seatrial.cli.job_options import MODELS
from seatrial.cli.long_run import ending_signals, relax_gc
from seatrial.cli.options import grouped
from seatrial.errors import UsageError
from seatrial.gateway.access import agent_variables, known_secrets
from seatrial.gateway.api import for_trial
from seatrial.gateway.base import EndedCall, checked
from seatrial.gateway.calls import CALLS_FILE, CallLog
from seatrial.gateway.server import listening_socket, serve
from seatrial.gateway.session import Session
from seatrial.jobs.machinery import model_access
from seatrial.model.job import ModelOptions
from seatrial.model.record import ModelUsage
from seatrial.model.trace import ModelCall
from seatrial.report.conversation import headline
from seatrial.report.text import harmless
from seatrial.report.trial import model_usage

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - only compared with


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the gateway listens, and where calls are kept if they are."""

    host: str
    port: int
    calls: Path | None


@click.command("gateway", cls=grouped(MODELS))
@MODELS
@click.option("-m", "--model", metavar="MODEL", help="Ask for this model, whatever the agent asks for.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen.  [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port.  [one that is free]")
@click.option("--public", is_flag=True, help="Allow a --host that other machines can reach.")
@click.option(
    "--calls", type=click.Path(path_type=Path), metavar="DIR", help=f"Keep the calls, in {CALLS_FILE} of this folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(
    model: str | None, host: str, port: int, public: bool, calls: Path | None, as_json: bool, **options: Any
) -> None:
    """Run the model gateway until Ctrl-C: print the variables that lead an agent to it, then a line for each call."""
    if not options["upstream"]:
        raise UsageError("no upstream; say where calls go with --upstream, such as openai or scripted:FILE")
    if not public and not _is_loopback(host):
        raise UsageError(f"other machines can reach {host}; give --public too if that is meant")
    given = ModelOptions.model_validate({name: value for name, value in options.items() if value is not None})
    teller: _Teller = _Json() if as_json else _Words()
    asyncio.run(_serve(given, model, _Place(host, port, _folder(calls)), teller))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _folder(calls: Path | None) -> Path | None:
    """The folder that was named, or in which the file is that was named."""
    if calls is None:
        return None
    folder = calls.parent if calls.name == CALLS_FILE else calls
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _Teller(Protocol):
    """Says what happens."""

    def begin(self, variables: Mapping[str, str]) -> None: ...

    def call(self, call: ModelCall) -> None: ...

    def end(self, usage: ModelUsage) -> None: ...


class _Words:
    """Says it to people."""

    def begin(self, variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            click.echo(f"export {name}={shlex.quote(value)}")
        click.echo("Ctrl-C ends it.", err=True)

    def call(self, call: ModelCall) -> None:
        click.echo(headline(call))

    def end(self, usage: ModelUsage) -> None:
        click.echo(f"total: {model_usage(usage)}")


class _Json:
    """Says it to programs. ASCII only: a stranger's text may have characters that steer a terminal."""

    def begin(self, variables: Mapping[str, str]) -> None:
        click.echo(json.dumps({"event": "listening", "variables": dict(variables)}))

    def call(self, call: ModelCall) -> None:
        click.echo(json.dumps({"event": "call", "call": call.model_dump(mode="json", exclude_none=True)}))

    def end(self, usage: ModelUsage) -> None:
        click.echo(json.dumps({"event": "ended", "usage": usage.model_dump(mode="json")}))


class _Journal:
    """Tells of each call, and keeps it if there is a log."""

    def __init__(self, log: CallLog | None, tell: Callable[[ModelCall], None]) -> None:
        self._log = log
        self._tell = tell

    def write(self, call: EndedCall) -> None:
        if self._log is not None:
            self._log.write(call)
        with contextlib.suppress(OSError):  # a reader who has gone away is no reason to fail the agent
            self._tell(checked(call))


async def _serve(options: ModelOptions, model: str | None, place: _Place, teller: _Teller) -> None:
    relax_gc()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, *ending_signals()):  # its only end, and thus no failure
        loop.add_signal_handler(number, stop.set)
    with contextlib.ExitStack() as stack, listening_socket(place.host, place.port) as listener:
        log = stack.enter_context(CallLog(place.calls, known_secrets(os.environ))) if place.calls else None
        async with model_access(options) as access:
            assert access is not None  # noqa: S101 - there is an upstream
            journal = _Journal(log, teller.call)
            session = Session(for_trial(access.upstream), journal, access.options.with_model(model), access.prices)
            async with serve(session, listener) as port:
                named = model_variables(model) if model else {}
                teller.begin({**agent_variables(_root(place.host, port), session.key), **named})
                await stop.wait()
        teller.end(session.usage)


def _root(host: str, port: int) -> str:
    if host in _EVERYWHERE:
        return f"http://{harmless(socket.gethostname())}:{port}"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
