"""`seatrial resume JOB`: run what a job has no records of yet, or what is added to it."""

from pathlib import Path
from typing import Any

import click

from seatrial.cli.job_options import DISPLAY, GATES, HARBOR_SPELLINGS, RESUMED_JOB, TRUST_JOB, resumed_job_options
from seatrial.cli.job_spec import changed_job
from seatrial.cli.options import OptionGroup, grouped
from seatrial.cli.progress import choose_display
from seatrial.cli.running import Gates, carry_out, terminated_like_interrupted
from seatrial.jobs.api import prepare_resume
from seatrial.store.job_store import JobStore

_THIS_JOB = OptionGroup(
    "This job",
    (
        click.option("--extend", is_flag=True, help="Let -p, -a and -k add tasks, agents and attempts."),
        click.option("--retry-failed", is_flag=True, help="Run trials again that the machine or a provider failed."),
        click.option("--retry-warned", is_flag=True, help="Run trials again whose agent never really ran."),
        click.option("--force", "unfit", flag_value="run", help="Add tasks with errors, or needs no sandbox has."),
        TRUST_JOB,
    ),
)
_EXAMPLES = """
seatrial resume jobs/first
seatrial resume jobs/first --retry-failed
seatrial resume jobs/first --extend -k 8
"""


@click.command("resume", cls=grouped(_THIS_JOB, *RESUMED_JOB, unlisted=HARBOR_SPELLINGS), epilog=_EXAMPLES)
@click.argument("job", type=click.Path(path_type=Path))
@_THIS_JOB
@resumed_job_options
@GATES
@DISPLAY
@click.pass_context
def command(context: click.Context, /, job: Path, **options: Any) -> None:
    """Go on with the job in folder JOB: trials that have a record are not run again.

    A job whose tasks or options have changed is refused, with what changed. So is one that you did not make here, with
    what it would do, until you give --trust-job. Exit codes as for `seatrial run`.
    """
    stored = JobStore.open(job).file.spec
    wanted = changed_job(stored, options)
    spec = None if wanted == stored else wanted
    gates = Gates(options["fail_under"], options["max_failed"], options["max_invalid"])
    with terminated_like_interrupted():
        prepared = prepare_resume(
            job,
            spec=spec,
            extend=options["extend"],
            retry_failed=options["retry_failed"],
            retry_warned=options["retry_warned"],
            trust_job=options["trust_job"],
        )
        code = carry_out(prepared, choose_display(as_json=options["as_json"], quiet=options["quiet"]), gates)
    context.exit(code)
