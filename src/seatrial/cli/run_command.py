"""`seatrial run -p TASKS -a AGENT`: every task by every agent, each in a sandbox of its own, into a job folder."""

from typing import Any

import click

from seatrial.cli.job_options import DISPLAY, GATES, HARBOR_SPELLINGS, NEW_JOB, new_job_options
from seatrial.cli.job_spec import new_job
from seatrial.cli.options import grouped
from seatrial.cli.progress import choose_display
from seatrial.cli.running import Gates, carry_out, terminated_like_interrupted
from seatrial.jobs.api import prepare_job

_EXAMPLES = """
seatrial run -p examples/tasks -a oracle -a noop
seatrial run -p my/tasks --agent-files my/agent \\
    --command 'python3 /agent/agent.py'
seatrial run -p my/tasks -i 'easy-*' -k 4 -n 8 --timeout 10m -o jobs/easy \\
    --command 'my-agent' --agent-setup 'pip install my-agent' \\
    -m gpt-5-mini --upstream openai --max-cost 0.50
seatrial run -c job.toml
"""


@click.command("run", cls=grouped(*NEW_JOB, unlisted=HARBOR_SPELLINGS), epilog=_EXAMPLES)
@new_job_options
@GATES
@DISPLAY
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
