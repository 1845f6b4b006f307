"""The options that say who works on the tasks of a job, and with which model."""

from pathlib import Path

import click

from seatrial.cli.option_groups import OptionGroup
from seatrial.cli.option_values import (
    parse_agent_env,
    parse_agent_files,
    parse_agent_layer,
    parse_agent_options,
)
from seatrial.model.job import AGENT_FILES_DIR

_AT_LEAST_1 = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0.0, min_open=True)

AGENTS = OptionGroup(
    "Agents",
    (
        click.option(
            *("-a", "--agent"),
            "agents",
            multiple=True,
            metavar="AGENT",
            help="Who works: oracle (the task's own solution), noop (does nothing), a plug-in, or NAME[@VERSION] of "
            "`seatrial agents list`.",
        ),
        click.option(
            "--command",
            "commands",
            multiple=True,
            metavar="COMMAND",
            help="Run this shell command in the sandbox as the agent. Each one given is an agent.",
        ),
        click.option(
            "--agent-files",
            multiple=True,
            callback=parse_agent_files,
            metavar="DIR[:/WHERE]",
            help=f"Put what is in this folder, or this file, into the sandbox for the agent.  [{AGENT_FILES_DIR}]",
        ),
        click.option(
            *("--agent-env", "--ae"),
            "agent_env",
            multiple=True,
            callback=parse_agent_env,
            metavar="NAME[=VALUE]",
            help="A variable for the agent; without a value, this machine's.",
        ),
        click.option(
            "--agent-layer",
            callback=parse_agent_layer,
            metavar="DIR|TAR",
            help="Lay this tree, a folder or an archive, over the root of each image for the agent.",
        ),
        click.option(
            *("--agent-option", "--ak", "--agent-kwarg"),
            "agent_options",
            multiple=True,
            callback=parse_agent_options,
            metavar="NAME=VALUE",
            help="An option of the agent, such as max_turns=50; `seatrial agents show NAME` lists them.",
        ),
        click.option(
            "--agents-dir",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="DIR",
            help="A folder with presets of your own (NAME.toml).  [~/.config/seatrial/agents]",
        ),
        click.option("--agent-setup", metavar="COMMAND", help="Installs the agent, once on top of each image."),
        click.option(
            *("-m", "--model"),
            "models",
            multiple=True,
            metavar="MODEL",
            help="The model the agents use. With several, each agent runs with each.",
        ),
    ),
)
MODELS = OptionGroup(
    "Models",
    (
        click.option(
            "--upstream", metavar="UPSTREAM", help="Where model calls go: openai, https://…, scripted:FILE, …"
        ),
        click.option(
            "--temperature", type=click.FloatRange(min=0.0), metavar="X", help="Instead of what the agent asks."
        ),
        click.option(
            "--max-output-tokens", type=_AT_LEAST_1, metavar="N", help="Of one answer, instead of the agent's."
        ),
        click.option("--max-turns", type=_AT_LEAST_1, metavar="N", help="Model calls of one trial, at most."),
        click.option("--max-tokens", type=_AT_LEAST_1, metavar="N", help="Tokens of one trial, in and out, at most."),
        click.option("--max-cost", "max_cost_usd", type=_POSITIVE, metavar="USD", help="Cost of one trial, at most."),
        click.option(
            "--translate",
            type=click.Choice(["lenient", "strict"]),
            help="What a model's dialect has no place for is left out and noted, or its call refused.  [lenient]",
        ),
        click.option("--prices", metavar="FILE", help="A price list (TOML) before the one that comes with Seatrial."),
    ),
)
