"""A real run, watched in a real browser from its start to its end, without the page being loaded again."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL
from tests.cli.test_view_command import address_of, running
from tests.conftest import MakeTask
from tests.report.html.test_browser import browser as browser  # noqa: PLC0414 - the fixture, from where it is made

TIMEOUT_SEC = 60
PLAIN = ("-e", "local", "--allow-partial-limits")
VERIFIER = '#!/bin/sh\necho 1 > "$SANDBOX_ROOT/logs/verifier/reward.txt"\n'


@contextmanager
def run_at_work(task: Path, job: Path, gate: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A run of three trials, one after the other. Each waits until somebody writes a line into the gate."""
    os.mkfifo(gate)
    agent = f'read line < "{gate}"; echo "$line" > /dev/null'
    command = (*SEATRIAL, "run", "-p", task, "--command", agent, "-k", 3, "-n", 1, *PLAIN, "-o", job)
    output = subprocess.DEVNULL
    with subprocess.Popen([*map(str, command)], env=PLAIN_ENVIRONMENT, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


def release(gate: Path, run: "subprocess.Popen[bytes]") -> None:
    """Let the trial that waits go on, as soon as there is one."""
    while run.poll() is None:
        with suppress(OSError):  # nobody reads yet
            gate_end = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
            os.write(gate_end, b"go\n")
            os.close(gate_end)
            return
    pytest.fail(f"the run ended by itself, with exit code {run.returncode}")


def test_a_run_is_watched_to_its_end(browser: Any, tmp_path: Path, make_task: MakeTask) -> None:
    job, gate = tmp_path / "jobs" / "night", tmp_path / "gate"
    with run_at_work(make_task("wait", files={"tests/test.sh": VERIFIER}), job, gate) as run:
        release(gate, run)  # an agent reads from it, so the job is there
        with running(tmp_path / "jobs", "--no-open", "--port", 0) as viewer:
            watch(browser, address_of(viewer), gate, run)


def watch(browser: Any, address: str, gate: Path, run: "subprocess.Popen[bytes]") -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700})
    troubles: list[str] = []
    page, jobs = context.new_page(), context.new_page()
    for each in (page, jobs):
        each.on("console", lambda message: troubles.append(message.text))
        each.on("pageerror", lambda error: troubles.append(str(error)))
        each.goto(address)
        each.set_default_timeout(1000 * TIMEOUT_SEC)
    page.click("text=night")
    page.locator(".state.running").wait_for()
    page.evaluate("window.mark = 'never loaded again'")
    page.get_by_text("1 of 3", exact=True).wait_for()
    page.locator("#underway").get_by_text("wait.command.2").wait_for()
    release(gate, run)
    page.get_by_text("2 of 3", exact=True).wait_for()
    page.locator("#recent").get_by_role("link", name="wait.command.2").wait_for()
    page.locator("#underway").get_by_text("wait.command.3").wait_for()
    release(gate, run)
    run.wait(TIMEOUT_SEC)
    page.locator("h1 + .state.finished").wait_for()
    page.locator("#list").get_by_role("link", name="wait.command.3").wait_for()
    assert "3 passed" in page.inner_text("#summary")
    page.locator("#live").wait_for(state="hidden")
    assert page.evaluate("window.mark") == "never loaded again"
    jobs.bring_to_front()
    jobs.locator(".state.finished").wait_for()
    assert "token" not in page.url + jobs.url
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "find"
    assert troubles == []
    context.close()
