"""`seatrial doctor`: what works here, and for each thing that does not, what to do about it."""

import asyncio
import json
from dataclasses import asdict

import click

from seatrial.analysis.tables import Table
from seatrial.backends.named import examine
from seatrial.cli.screen import show_table
from seatrial.sandbox.doctor import HostFinding


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", help="This machine, or a Ray cluster.")
@click.option("--address", metavar="ADDRESS", help="Where the cluster is: auto, or HOST:PORT. Without, this machine.")
@click.pass_context
def command(context: click.Context, as_json: bool, engine: str, address: str | None) -> None:
    """Try every step of a sandbox's life. Exits with 1 when sandboxes cannot run here.

    With --engine ray, try a runner on every node of a cluster instead. Exits with 1 when no node can run trials.
    """
    if engine == "ray":
        context.exit(_examine_cluster(address, as_json))
    findings = asyncio.run(_collect())
    if as_json:
        for finding in findings:
            click.echo(json.dumps(asdict(finding)))
    else:
        rows = [(finding.step, finding.status, finding.detail, finding.fix) for finding in findings]
        show_table("what works here", Table(("step", "status", "detail", "fix"), rows))
    context.exit(1 if any(finding.status == "fails" for finding in findings) else 0)


async def _collect() -> list[HostFinding]:
    return [finding async for finding in examine()]


def _examine_cluster(address: str | None, as_json: bool) -> int:
    from seatrial.jobs.ray.engine import examine_cluster  # noqa: PLC0415 - only here

    nodes = asyncio.run(examine_cluster(address))
    if as_json:
        for node in nodes:
            click.echo(json.dumps(asdict(node)))
    else:
        rows = [(node.node, node.status, node.detail, node.reason) for node in nodes]
        show_table("nodes", Table(("node", "status", "detail", "reason"), rows))
    return 0 if any(node.status == "fit" for node in nodes) else 1
