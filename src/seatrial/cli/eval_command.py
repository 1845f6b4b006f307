"""`seatrial eval ENV`: roll out a model on an environment, score it, and keep every rollout."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from seatrial.cli.eval_ending import begin_folder
from seatrial.cli.eval_options import GROUPS, NO_EFFECT, UNLISTED, eval_options
from seatrial.cli.eval_prepared import prepare_eval
from seatrial.cli.eval_running import carry_out_eval
from seatrial.cli.gates import Gates, gate_options
from seatrial.cli.job_running import terminated_like_interrupted
from seatrial.cli.option_groups import grouped
from seatrial.cli.progress import Display, LinesDisplay, choose_display
from seatrial.errors import SeatrialError

_EXAMPLES = """
seatrial eval my-env -m gpt-5-mini -n 20 -r 4
seatrial eval ./environments/my_env -m my-model -b http://localhost:8000/v1
seatrial eval my-env -a '{"level": 2}' --upstream scripted:answers.jsonl
seatrial eval my-env -m gpt-5-mini --resume
"""


@click.command("eval", cls=grouped(*GROUPS, unlisted=UNLISTED), epilog=_EXAMPLES)
@eval_options
@gate_options
@click.pass_context
def command(
    context: click.Context, /, fail_under: float | None, max_failed: float, max_invalid: float, **options: Any
) -> None:
    """Roll out a model on the environment ENV: a Python file, a folder, or the name of an installed module.

    Exits with 1 when a gate is missed, with 130 when it was interrupted; what is done is kept, and --resume goes on.
    """
    if ignored := options.pop(NO_EFFECT, None):
        click.echo(f"Note: without effect here: {', '.join(ignored)}; docs/eval.md says why", err=True)
    with terminated_like_interrupted(), _speaking(debug=options["debug"]):
        prepared = prepare_eval(options)
        begin_folder(prepared)
        gates = Gates(fail_under, max_failed, max_invalid)
        code = carry_out_eval(prepared, _display(options), gates)
    context.exit(code)


def _display(options: dict[str, Any]) -> Display:
    if options["plain"] and not options["as_json"] and not options["quiet"]:
        return LinesDisplay()
    return choose_display(as_json=options["as_json"], quiet=options["quiet"])


@contextmanager
def _speaking(*, debug: bool) -> Iterator[None]:
    """With `debug`, the log and the traceback behind an error go to stderr; usually neither does."""
    log, level = logging.getLogger("seatrial"), logging.getLogger("seatrial").level
    handler: logging.Handler = logging.StreamHandler(sys.stderr) if debug else logging.NullHandler()
    log.addHandler(handler)
    try:
        if debug:
            log.setLevel(logging.DEBUG)
        yield
    except SeatrialError as error:
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
