"""The options of a job, under the headings of `seatrial run --help`. `job_asked` turns them into a JobSpec."""

import os
from pathlib import Path
from typing import get_args

import click

from seatrial.cli.agent_options import AGENTS, MODELS
from seatrial.cli.gates import gate_options
from seatrial.cli.harbor_options import HARBOR_OPTIONS
from seatrial.cli.option_groups import Command, OptionGroup, with_options
from seatrial.cli.option_values import parse_duration, parse_image_map, parse_names, parse_size
from seatrial.model.job import ImageFallback, Isolation

_AT_LEAST_1 = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0.0, min_open=True)

TASKS = OptionGroup(
    "What to run",
    (
        click.option("-p", "--path", "paths", multiple=True, metavar="TASKS", help="A task, or a folder of tasks."),
        click.option(
            *("-i", "--include", "--include-task-name", "-t", "--task", "--task-name"),
            "include",
            multiple=True,
            metavar="GLOB",
            help="Only tasks whose id or name matches.",
        ),
        click.option(
            *("-x", "--exclude", "--exclude-task-name"),
            "exclude",
            multiple=True,
            metavar="GLOB",
            help="No tasks whose id or name matches.",
        ),
        click.option(
            *("-l", "--max-tasks", "--n-tasks"),
            "max_tasks",
            type=_AT_LEAST_1,
            metavar="N",
            help="Only the first N of the chosen tasks.",
        ),
        click.option(
            *("-k", "--attempts", "--n-attempts"),
            "attempts",
            type=_AT_LEAST_1,
            metavar="N",
            help="Trials of each agent at each task.  [1]",
        ),
        click.option("--shuffle", is_flag=True, help="Run the trials in a random order."),
        click.option("--seed", type=int, metavar="N", help="The seed of that order."),
        click.option(
            *("-c", "--job", "--config"),
            "job_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A job file (TOML or YAML) with any of this, or one of Harbor's.",
        ),
        click.option(
            "--force", "unfit", flag_value="run", help="Run tasks with errors, or without what no sandbox here has."
        ),
    ),
)
LIMITS = OptionGroup(
    "Limits and budgets",
    (
        click.option(
            *("-n", "--concurrent", "--n-concurrent"),
            "concurrent",
            type=_AT_LEAST_1,
            metavar="N",
            help="Trials at a time.  [the number of cores, at least 4; of a cluster, of all its nodes]",
        ),
        click.option("--engine", metavar="NAME", help="Where trials run: local, or ray for a cluster.  [local]"),
        click.option("--address", metavar="ADDRESS", help="The Ray cluster, such as auto.  [a new one, here]"),
        click.option(
            *("--retries", "-r", "--max-retries"),
            "retries",
            type=click.IntRange(min=0),
            metavar="N",
            help="Further tries when the machine or a provider fails a trial.  [2]",
        ),
        click.option("--max-trials", type=_AT_LEAST_1, metavar="N", help="Start no more trials than this."),
        click.option(
            "--max-wall",
            "max_wall_sec",
            callback=parse_duration,
            metavar="TIME",
            help="Stop after this long, also what runs then: 90s, 30m, 2h.",
        ),
        click.option(
            "--host-wait",
            "host_wait_sec",
            callback=parse_duration,
            metavar="TIME",
            help="How long to wait for a machine without disk space, processes or memory.  [10m]",
        ),
        click.option(
            "--max-busy",
            type=click.FloatRange(0.0, 1.0),
            metavar="SHARE",
            help="Try a trial again whose processes waited for a processor that others used for more of their time.",
        ),
        click.option(
            "--preflight/--no-preflight", default=None, help="Try each agent out before its first trial.  [preflight]"
        ),
        click.option(
            "--keep-going/--stop-early",
            default=None,
            help="What to do when an agent never really runs in its first trials.  [stop-early]",
        ),
        click.option(
            *("--timeout", "--agent-timeout"),
            "agent_timeout_sec",
            callback=parse_duration,
            metavar="TIME",
            help="The agent's time, instead of what tasks say: 90s, 30m, 2h.",
        ),
        click.option(
            *("--cpus", "--override-cpus"),
            "cpus",
            type=click.FloatRange(min=0.01),
            metavar="X",
            help="Processors of a sandbox, instead of what tasks say.",
        ),
        click.option(
            "--memory",
            "memory_mb",
            callback=parse_size,
            metavar="SIZE",
            help="Memory of a sandbox, instead of what tasks say: 512M, 2G.",
        ),
        click.option(
            "--storage",
            "storage_mb",
            callback=parse_size,
            metavar="SIZE",
            help="Disk space of a sandbox, instead of what tasks say: 512M, 10G.",
        ),
        click.option(
            "--timeout-multiplier", type=_POSITIVE, metavar="X", help="Stretch the times of agent and verifier.  [1]"
        ),
        click.option("--agent-timeout-multiplier", type=_POSITIVE, metavar="X", help="Stretch the agent's time.  [1]"),
        click.option(
            "--verifier-timeout-multiplier", type=_POSITIVE, metavar="X", help="Stretch the verifier's time.  [1]"
        ),
        click.option(
            "--allow-partial-limits",
            "enforcement",
            flag_value="partial",
            help="Run with the limits this machine can hold.",
        ),
    ),
)
SANDBOX = OptionGroup(
    "Sandbox and images",
    (
        click.option(
            *("-e", "--backend", "--env"),
            "backend",
            metavar="BACKEND",
            help="embedded, docker, podman, auto, local or a plug-in.  [embedded]",
        ),
        click.option(
            "--image", metavar="IMAGE", help="For all tasks: host, a reference, or a folder.  [the task's own]"
        ),
        click.option(
            "--image-map",
            multiple=True,
            callback=parse_image_map,
            metavar="NAME=IMAGE",
            help="Another image than tasks and Dockerfiles name.",
        ),
        click.option(
            "--image-fallback",
            type=click.Choice(get_args(ImageFallback)),
            help="For which images that cannot be had this machine stands in.  [python]",
        ),
        click.option(
            "--force-build", "build", flag_value="always", help="Build Dockerfiles even if an image is named."
        ),
        click.option(
            "--ca-file",
            callback=lambda _, __, value: value and os.path.abspath(value),  # noqa: PTH100 - links stay
            metavar="FILE",
            help="Certificates (PEM) to trust in builds, set-ups, sandboxes and model calls.",
        ),
        click.option(
            "--use-proxy",
            "proxy",
            flag_value="host",
            help="Reach the network through this machine's HTTPS_PROXY, in builds, set-ups and sandboxes.",
        ),
        click.option("--network", type=click.Choice(["task", "none"]), help="What the task says, or none.  [task]"),
        click.option(
            "--allow-private-hosts",
            "private_hosts",
            flag_value="allow",
            help="Let tasks reach this machine's networks.",
        ),
        click.option(
            "--allow-env",
            multiple=True,
            callback=parse_names,
            metavar="NAME",
            help="Let tasks take this variable of this machine by ${NAME}.",
        ),
    ),
)
VERIFICATION = OptionGroup(
    "Verification",
    (
        click.option(
            "--verify-isolation",
            "isolation",
            type=click.Choice(get_args(Isolation)),
            help="What becomes of the agent's processes while its work is judged.  [guarded]",
        ),
        click.option(
            "--trust",
            type=click.Choice(["image", "as-left"]),
            callback=lambda _, __, value: value and value.replace("-", "_"),
            help="Whose programs and settings verifiers work with: the image's, or those the agent left.  [image]",
        ),
        click.option(
            "--pass-threshold",
            type=click.FloatRange(0.0, 1.0),
            metavar="X",
            help="The reward from which a trial passes.  [1]",
        ),
        click.option(
            "--verdict",
            type=click.Choice(["task", "exit_status"]),
            help="What counts where a verifier writes no reward: what the task says, or its exit status.  [task]",
        ),
        click.option(
            "--verify-repeats",
            type=click.IntRange(1, 100),
            metavar="N",
            help="Ask the verifier N times about the same end state; the lowest reward counts.  [1]",
        ),
    ),
)
PLACE = OptionGroup(
    "Output",
    (
        click.option(
            *("-o", "--output"),
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="The job's folder.  [jobs/<date and time>]",
        ),
        click.option(
            "--jobs-dir", type=click.Path(path_type=Path), metavar="DIR", help="The folder to make it in.  [jobs]"
        ),
        click.option("--job-name", metavar="NAME", help="What to call it there.  [date and time]"),
        click.option(
            "--keep",
            type=click.Choice(["auto", "record", "snapshot"]),
            help="Keep the sandbox's end state: where it is small, never, or always.  [auto]",
        ),
    ),
)

DISPLAY = OptionGroup(
    "Output",
    (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event and line."),
        click.option("-q", "--quiet", "--silent", "quiet", is_flag=True, help="Show only the summary."),
    ),
)
_PATHS = click.argument("more_paths", metavar="[TASKS]...", nargs=-1)
_OF_JOB = (TASKS, AGENTS, MODELS, LIMITS, SANDBOX, VERIFICATION, PLACE)
NEW_JOB = (*_OF_JOB[:-1], OptionGroup("Output", (*PLACE.options, *DISPLAY.options, gate_options)))


def only_options(group: OptionGroup, *names: str) -> OptionGroup:
    """The options of a group that give a command one of these names."""
    chosen = (option for option in group.options if OptionGroup(group.title, (option,)).names & set(names))
    return OptionGroup(group.title, tuple(chosen))


_OF_RESUMED_JOB = (
    only_options(TASKS, "paths", "attempts"),
    AGENTS,
    only_options(
        LIMITS,
        *("concurrent", "engine", "address", "retries", "max_trials", "max_wall_sec"),
        *("host_wait_sec", "preflight", "keep_going"),
    ),
)
RESUMED_JOB = (*_OF_RESUMED_JOB, OptionGroup("Output", (*DISPLAY.options, gate_options)))


def new_job_options(command: Command) -> Command:
    """Give a command all options of a new job."""
    return with_options(command, (_PATHS, *_OF_JOB, *HARBOR_OPTIONS))


def resumed_job_options(command: Command) -> Command:
    """Give a command the options that may be different when a job is resumed."""
    return with_options(command, _OF_RESUMED_JOB)


def display_options(command: Command) -> Command:
    """Give a command the options that say what is printed meanwhile."""
    return DISPLAY(command)
