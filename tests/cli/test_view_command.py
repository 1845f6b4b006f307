"""`seatrial view`: the address it prints works, mistakes are told, and Ctrl-C ends it at once with nothing left."""

import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from seatrial.cli import view_command
from seatrial.view import server
from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL, Seatrial
from tests.conftest import sampled
from tests.view.viewers import stored_job

TIMEOUT_SEC = 60


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    stored_job(tmp_path / "jobs" / "a", {"add": [1.0]})
    return tmp_path / "jobs"


@contextmanager
def running(*arguments: object, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A viewer that is ended with the block, if it was not before."""
    command = [*SEATRIAL, "view", *map(str, arguments)]
    pipe, environ = subprocess.PIPE, {**PLAIN_ENVIRONMENT, **environment}
    with subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    return found[0]


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM]))
def test_the_printed_address_works_until_a_signal_ends_it(jobs, tmp_path, number):
    (tmp_path / "scratch").mkdir()
    with running(
        jobs, "--port", 0, TMPDIR=str(tmp_path / "scratch"), SSH_CONNECTION="10.0.0.9 1 10.0.0.7 22"
    ) as process:
        url = address_of(process)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        page = browser.open(url, timeout=TIMEOUT_SEC).read().decode()
        assert "nightly" in page
        plain = url.partition("?")[0]
        assert browser.open(plain, timeout=TIMEOUT_SEC).status == 200
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(plain, timeout=TIMEOUT_SEC)
        port = url.partition("?")[0].rpartition(":")[2].strip("/")
        watching = browser.open(f"{plain}api/jobs/a/events", timeout=TIMEOUT_SEC)
        watching.readline()
        process.send_signal(number)
        assert process.wait(TIMEOUT_SEC) == 0
        assert process.stderr is not None
        said = process.stderr.read()
    assert re.search(rf"ssh -N -L {port}:127\.0\.0\.1:{port} \S+@10\.0\.0\.7", said)
    assert "Traceback" not in said
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_browser_is_opened_without_the_token_on_its_command_line(jobs, tmp_path):
    seen = tmp_path / "seen"
    opener = tmp_path / "opener"
    opener.write_text(f'#!/bin/sh\necho "$@" > {seen}.new; cat "${{1#file://}}" >> {seen}.new; mv {seen}.new {seen}\n')
    opener.chmod(0o755)
    with running(jobs, "--port", 0, DISPLAY=":7", BROWSER=f"{opener} %s") as process:
        url = address_of(process)
        while not seen.exists():
            assert process.poll() is None
        started, content = seen.read_text().splitlines()
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SEC) == 0
    assert "token" not in started
    assert url in content
    assert not Path(started.removeprefix("file://")).exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none"], "none: there is no such folder; name the folder of a job"),
        (["empty"], "empty: no job in it; looked for job.json there"),
        (
            ["jobs", "--password-file", "secret"],
            "--password-file was removed; leave it out, and give the printed address",
        ),
        (["jobs", "--host", "192.0.2.1", "--port", "0"], "192.0.2.1 port 0: nobody can listen"),
    ],
)
def test_mistakes_are_told(jobs: Path, seatrial: Seatrial, monkeypatch, arguments, reason):
    monkeypatch.chdir(jobs.parent)
    Path("empty").mkdir()
    shown = seatrial("view", *arguments)
    assert shown.code == 2
    assert reason in shown.err
    assert shown.out == ""


def test_a_port_that_is_taken(jobs: Path, seatrial: Seatrial, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        shown = seatrial("view", jobs, "--port", port)
        assert shown.code == 2
        assert re.search(rf"port {port} is in use by process \d+, \S+.*; choose another with --port", shown.err)
        monkeypatch.setattr(server, "USUAL_PORT", port)
        with server.listen("127.0.0.1", None) as listener:
            assert listener.getsockname()[1] not in (0, port)


def test_a_viewer_for_others_says_what_that_means(jobs: Path):
    with running(jobs, "--host", "0.0.0.0", "--port", 0) as process:
        root, _, token = address_of(process).partition("/?token=")
        local = f"http://127.0.0.1:{root.rpartition(':')[2]}/"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(local, timeout=TIMEOUT_SEC)
        asked = urllib.request.Request(local, headers={"Authorization": f"Bearer {token}"})
        assert urllib.request.urlopen(asked, timeout=TIMEOUT_SEC).status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SEC) == 0
        assert process.stderr is not None
        assert "is not encrypted" in process.stderr.read()


@pytest.mark.parametrize(
    ("environ", "opens"),
    [
        ({}, False),
        ({"DISPLAY": ":0"}, True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "x"}, False),
        ({"DISPLAY": ""}, False),
    ],
)
def test_a_browser_is_opened_only_where_somebody_sees_it(environ, opens):
    assert view_command._has_browser(environ) is opens
