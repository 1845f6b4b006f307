"""`seatrial view`: jobs, trials and reviews in a browser, from a small server on this machine."""

import asyncio
import getpass
import os
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path

import click

from seatrial.cli.long_run import ending_signals
from seatrial.descriptors import raise_limit
from seatrial.errors import UsageError
from seatrial.view.hosts import root_url
from seatrial.view.job_folders import check_folders
from seatrial.view.ports import listen
from seatrial.view.settings import LOOPBACK, ViewSettings, is_loopback

_USUAL_FOLDER = Path("jobs")
_SHORTEST_PASSWORD = 8
_LONGEST_PASSWORD = 1024


@click.command("view")
@click.argument("jobs", nargs=-1, type=click.Path(path_type=Path), metavar="[JOBS]...")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="The port; 0 is one that is free.  [8765]")
@click.option("--no-open", is_flag=True, help="Open no browser; only print the address.")
@click.option("--read-only", is_flag=True, help="Show everything and write nothing: no reviews.")
@click.option("--host", default=LOOPBACK, metavar="ADDRESS", help="Where to listen.  [127.0.0.1]")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with a password, for a --host that other machines can reach.",
)
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the same pages to a folder, without reviews, and serve none.",
)
def command(  # noqa: PLR0913, PLR0917 - one for each option
    jobs: tuple[Path, ...],
    port: int | None,
    no_open: bool,
    read_only: bool,
    host: str,
    password_file: Path | None,
    target: Path | None,
) -> None:
    """Look at jobs and review their trials in a browser, until Ctrl-C.

    JOBS are folders of jobs, or folders that have jobs in them.  [jobs]
    """
    folders = jobs or (_USUAL_FOLDER,)
    check_folders(folders)
    if target is not None:
        _export(tuple(folder.absolute() for folder in folders), target)
        return
    password = _password(host, password_file)
    settings = ViewSettings(
        tuple(folder.absolute() for folder in folders),
        host=host,
        access="read" if read_only else "review",
        password=password,
    )
    raise_limit()  # every page that watches a run has a connection
    with listen(host, port) as listener:
        address = _address(settings, listener)
        _say_where(settings, address, listener.getsockname()[1])
        opens = not no_open and password is None and _has_browser(os.environ)
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


def _password(host: str, file: Path | None) -> str | None:
    """The password in a file; None where there is none, which only a viewer that others cannot reach may have."""
    if file is None:
        if is_loopback(host):
            return None
        raise UsageError(
            f"other machines can reach {host}, so a password is needed: write one into a file that only you can read "
            "(`install -m 600 /dev/stdin FILE`) and give it by --password-file FILE; or leave --host out and forward "
            "the port by SSH"
        )
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(_LONGEST_PASSWORD + 1)
    except OSError as error:
        raise UsageError(f"{file}: the password cannot be read: {error.strerror or error}") from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        found = f"others may read it (mode {stat.S_IMODE(mode):o})"
        raise UsageError(f"{file}: {found}, expected a file of your own; `chmod 600` it, and change the password")
    password = content.decode("utf-8", "replace").strip()
    if not _SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
        raise UsageError(f"{file}: has a password of {len(password)} letters, expected {_SHORTEST_PASSWORD} or more")
    return password


def _address(settings: ViewSettings, listener: socket.socket) -> str:
    root = root_url(settings.host, listener.getsockname()[1])
    return f"{root}/" if settings.password else f"{root}/?token={settings.token}"


def _say_where(settings: ViewSettings, address: str, port: int) -> None:
    click.echo(f"Seatrial's viewer is at {address}")
    if settings.password and not is_loopback(settings.host):
        click.echo(
            "Other machines can reach it, and whoever has the password sees everything in these jobs. What is sent, "
            "the password too, is not encrypted: anybody on the way can read it. Use it only in a network you trust.",
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
    from seatrial.view.server import serving  # noqa: PLC0415 - slow to import, and whoever waits has the address already

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
