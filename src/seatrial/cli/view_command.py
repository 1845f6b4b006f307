"""`seatrial view`: jobs, trials and reviews in a browser, from a small server on this machine."""

import asyncio
import getpass
import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path

import click

from seatrial.cli.long_run import ending_signals
from seatrial.descriptors import raise_limit
from seatrial.errors import UsageError
from seatrial.view.access import LOOPBACK, ViewSettings, is_loopback, root_url
from seatrial.view.job_folders import check_folders
from seatrial.view.server import listen

_USUAL_FOLDER = Path("jobs")


def _refuse_password(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageError(
            "--password-file was removed; leave it out, and give the printed address, which has a token in it, to "
            "those who may look"
        )


@click.command("view")
@click.argument("jobs", nargs=-1, type=click.Path(path_type=Path), metavar="[JOBS]...")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="The port; 0 is one that is free.  [8765]")
@click.option("--no-open", is_flag=True, help="Open no browser; only print the address.")
@click.option("--read-only", is_flag=True, help="Show everything and write nothing: no reviews.")
@click.option("--host", default=LOOPBACK, metavar="ADDRESS", help="Where to listen.  [127.0.0.1]")
@click.option("--password-file", hidden=True, expose_value=False, callback=_refuse_password)
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the same pages to a folder, without reviews, and serve none.",
)
def command(
    jobs: tuple[Path, ...], port: int | None, no_open: bool, read_only: bool, host: str, target: Path | None
) -> None:
    """Look at jobs and review their trials in a browser, until Ctrl-C.

    JOBS are folders of jobs, or folders that have jobs in them.  [jobs]
    """
    folders = jobs or (_USUAL_FOLDER,)
    check_folders(folders)
    if target is not None:
        _export(tuple(folder.absolute() for folder in folders), target)
        return
    settings = ViewSettings(
        tuple(folder.absolute() for folder in folders),
        host=host,
        access="read" if read_only else "review",
    )
    raise_limit()  # every page that watches a run has a connection
    with listen(host, port) as listener:
        port = listener.getsockname()[1]
        address = f"{root_url(host, port)}/?token={settings.token}"
        _say_where(host, address, port)
        opens = not no_open and _has_browser(os.environ)
        asyncio.run(_serve(settings, listener, address if opens else None))


def _export(folders: tuple[Path, ...], target: Path) -> None:
    # Slow to import, and most who look export nothing.
    from seatrial.report.text import counted  # noqa: PLC0415
    from seatrial.view.export import export_jobs  # noqa: PLC0415

    done = export_jobs(folders, target.absolute())
    click.echo(f"{counted(done.pages, 'page')} and {counted(done.raw_files, 'raw file')}: {target / 'index.html'}")
    if done.left_out_files:
        click.echo(f"Note: {counted(done.left_out_files, 'raw file')} left out as too large", err=True)
    if done.left_out_pages:
        click.echo(f"Note: {counted(done.left_out_pages, 'page')} left out: there were too many", err=True)


def _say_where(host: str, address: str, port: int) -> None:
    click.echo(f"Seatrial's viewer is at {address}")
    if not is_loopback(host):
        click.echo(
            "Other machines can reach it, and everybody who has this address sees everything in these jobs. What is "
            "sent, the token too, is not encrypted: anybody on the way can read it. Use it in a network you trust.",
            err=True,
        )
    elif connection := os.environ.get("SSH_CONNECTION", "").split():
        here = connection[2] if len(connection) == 4 else socket.gethostname()
        forwarded = f"ssh -N -L {port}:{LOOPBACK}:{port} {getpass.getuser()}@{here}"
        click.echo(f"From your own machine, first forward its port: {forwarded}", err=True)
    click.echo("Ctrl-C ends it.", err=True)


def _has_browser(environ: Mapping[str, str]) -> bool:
    """Whether a browser on this machine would be seen by whoever typed the command."""
    return "SSH_CONNECTION" not in environ and any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


async def _serve(settings: ViewSettings, listener: socket.socket, opened: str | None) -> None:
    from seatrial.view.server import serving  # noqa: PLC0415

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, *ending_signals()):  # its only end, and thus no failure
        loop.add_signal_handler(number, stop.set)
    async with serving(settings, listener):
        with _first_page(opened) as page:
            if page:
                import webbrowser  # noqa: PLC0415 - most who run servers open none

                await asyncio.to_thread(webbrowser.open, page.as_uri())
            await stop.wait()


@contextmanager
def _first_page(address: str | None) -> Iterator[Path | None]:
    """A file that leads to an address. Everybody on a machine sees what programs are started with, so that a browser
    gets no token there.
    """
    if address is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="seatrial-view-") as folder:  # for this user only
        page = Path(folder) / "open.html"
        page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={escape(address)}">', "utf-8")
        yield page
