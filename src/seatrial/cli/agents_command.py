"""`seatrial agents list|show`: the agents that are ready to run."""

import click

from seatrial.cli.agents_view import list_agents, show_agent


@click.group("agents")
def command() -> None:
    """List and show the agents that are ready to run.

    `seatrial run -p TASKS -a NAME -m MODEL` runs one of them.
    """


command.add_command(list_agents)
command.add_command(show_agent)
