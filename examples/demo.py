"""The demo: one agent that solves, one that does nothing, one that cheats, and one whose model's provider goes down.

It tells the story from what was stored, and exits with 0 only if the story came out as it is told.
"""

import json
import os
import shlex
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import click

from seatrial.analysis.loaded import load_job
from seatrial.cli.main import run
from seatrial.cli.screen import paint
from seatrial.model.record import TrialRecord
from seatrial.report.document import ReportOptions, make_document
from seatrial.report.html.page import render_html
from seatrial.store.job_store import JobStore

JOB = Path("jobs/demo")
REPORT = JOB / "report.html"
SPEC = Path(__file__).with_name("demo.toml")
COMMANDS = (
    ("show", str(JOB), "modbus-crc.cheat"),
    ("calls", str(JOB), "beam-deflection.unlucky"),
    ("doctor",),
)
_WIDTH = 69
PROGRAM = os.path.relpath(Path(sys.executable).with_name("seatrial"))


@dataclass(frozen=True, slots=True)
class Chapter:
    """What is told of one agent, and whether its trials bear it out."""

    agent: str
    told: str
    true: bool


def main() -> int:
    """Run the job, tell its story, draw it, and say where to look closer."""
    shutil.rmtree(JOB, ignore_errors=True)
    sys.argv[0] = PROGRAM  # what our advice begins with
    with provider() as address:
        arguments = ["run", "--job", os.path.relpath(SPEC), "-o", str(JOB), "--upstream", address, "--max-failed", "1"]
        code = run(arguments)
    if code != 0:
        return code
    story = tell(JobStore.open(JOB))
    click.echo()
    for chapter in story:
        mark = paint("✓", "green", bold=True) if chapter.true else paint("✗", "red", bold=True)
        first, *rest = textwrap.wrap(chapter.told if chapter.true else f"NOT SO: {chapter.told}", _WIDTH)
        click.echo(f"{mark} {paint(f'{chapter.agent:<8}', bold=True)}{first}")
        for line in rest:
            click.echo(f"{'':10}{line}")
    write_report()
    show_commands()
    return 0 if all(chapter.true for chapter in story) else 1


class Provider(BaseHTTPRequestHandler):
    """A provider of models that speaks chat completions, and is overloaded whenever somebody asks what comes next."""

    def do_POST(self) -> None:
        """Answer, or do not."""
        question = self.rfile.read(int(self.headers["content-length"]))
        if b"What comes next?" in question:
            self._send(503, {"error": {"message": "overloaded", "type": "server_error"}})
            return
        message = {"role": "assistant", "content": "Read the task."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "demo-model"}
        self._send(200, {**answer, "choices": [choice], "usage": usage})

    def _send(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the screen belongs to the story."""


@contextmanager
def provider() -> Iterator[str]:
    """The address of that provider, while the block lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1,retries=1"
        finally:
            server.shutdown()
            thread.join()


def tell(store: JobStore) -> list[Chapter]:
    """The story, chapter by chapter, from the records."""
    trials: dict[str, list[TrialRecord]] = {}
    for entry in store.entries():
        trials.setdefault(entry.agent, []).append(store.record(entry.trial_id))
    return [solved(trials["solver"]), idled(trials["idle"]), cheated(trials["cheat"]), broke_down(trials["unlucky"])]


def solved(trials: list[TrialRecord]) -> Chapter:
    """An agent that does the work gets the reward."""
    return Chapter("solver", "did the work, and every verifier says so.", all(t.outcome == "pass" for t in trials))


def idled(trials: list[TrialRecord]) -> Chapter:
    """An agent that does nothing gets nothing."""
    told = "did nothing, and no verifier was fooled into a reward."
    return Chapter("idle", told, all(t.outcome == "no_output" for t in trials))


def cheated(trials: list[TrialRecord]) -> Chapter:
    """An agent that forges its reward is found out, and the record names what it did."""
    runs = [trial.verifier_run for trial in trials if trial.verifier_run]
    planted = runs[0].restored[0] if runs and runs[0].restored else "nothing"
    told = (
        f"planted {PurePosixPath(planted).name} to forge its reward, and left a process running. The verifier ran "
        "without either: reward 0. Judged on the system as the cheat left it, it would have scored 1.0."
    )
    caught = all(run.restored and run.survivors for run in runs) and len(runs) == len(trials)
    forged = all(trial.disputed_reward == 1.0 for trial in trials)
    return Chapter("cheat", told, caught and forged and all(t.outcome == "no_output" for t in trials))


def broke_down(trials: list[TrialRecord]) -> Chapter:
    """An agent whose provider breaks down is not blamed."""
    told = (
        "lost its model: the provider answered 503. That is an infrastructure failure, not a zero: it counts in no "
        "mean."
    )
    return Chapter("unlucky", told, all(t.failure is not None and t.failure.cause == "ProviderError" for t in trials))


def write_report() -> None:
    """The job as a page with pictures, and where it lies."""
    document = make_document([load_job(JOB)], ReportOptions(title="The demo of Seatrial"))
    REPORT.write_bytes(render_html(document, REPORT.parent))
    click.echo(f"\nPictures of it, for a browser: {paint(str(REPORT), 'cyan')}")


def show_commands() -> None:
    """Commands that work as they are printed, from where the demo was started."""
    click.echo("\nLook closer:")
    for arguments in COMMANDS:
        click.echo(f"  {paint(shlex.join((PROGRAM, *arguments)), 'cyan')}")


if __name__ == "__main__":
    sys.exit(main())
