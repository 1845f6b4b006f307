"""`seatrial doctor`: what works here, and for each thing that does not, what to do about it."""

import asyncio
import json
from dataclasses import asdict

import click

from seatrial.backends.upkeep import examine
from seatrial.cli.render import show_table
from seatrial.sandbox.doctor import HostFinding


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Try every step of a sandbox's life. Exits with 1 when sandboxes cannot run here."""
    findings = asyncio.run(_collect())
    if as_json:
        for finding in findings:
            click.echo(json.dumps(asdict(finding)))
    else:
        rows = ((finding.step, finding.status, finding.detail, finding.fix) for finding in findings)
        show_table("what works here", ("step", "status", "detail", "fix"), rows)
    context.exit(1 if any(finding.status == "fails" for finding in findings) else 0)


async def _collect() -> list[HostFinding]:
    return [finding async for finding in examine()]
