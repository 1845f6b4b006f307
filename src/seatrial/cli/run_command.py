"""`seatrial run -p TASKS -a AGENT`: every task by every agent, each in a sandbox of its own, into a job folder."""

from typing import Any

import click

from seatrial.cli.gates import Gates, gate_options
from seatrial.cli.job_options import new_job, new_job_options
from seatrial.cli.job_running import carry_out, terminated_like_interrupted
from seatrial.cli.progress import choose_display
from seatrial.jobs.api import prepare_job


@click.command("run")
@new_job_options
@gate_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event and line.")
@click.option("-q", "--quiet", is_flag=True, help="Show only the summary.")
@click.pass_context
def command(
    context: click.Context,
    /,
    fail_under: float | None,
    max_failed: float,
    max_invalid: float,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Run agents on tasks and keep complete records of it.

    Exits with 1 when a gate is missed or a budget stopped the job, with 130 when it was interrupted; a job that was
    stopped goes on with `seatrial resume`.
    """
    spec, folder = new_job(options)
    with terminated_like_interrupted():
        job = prepare_job(spec, folder)
        gates = Gates(fail_under, max_failed, max_invalid)
        code = carry_out(job, choose_display(as_json=as_json, quiet=quiet), gates)
    context.exit(code)
