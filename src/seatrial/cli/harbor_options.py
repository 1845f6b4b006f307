"""Options of `harbor run` that are spelled otherwise here or not needed: each works, or says in one line what to do.

None of them is in the help; docs/from-harbor.md has all of them side by side with ours.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from seatrial.cli.option_groups import Decorator

_SIZE = click.IntRange(min=1)

# Spellings of Harbor's that lie on options of ours, which the help shows by our own names only.
HARBOR_SPELLINGS = frozenset(
    {
        *("--n-attempts", "--n-concurrent", "--n-tasks", "--include-task-name", "--exclude-task-name"),
        *(
            "-t",
            "--task",
            "--task-name",
            "--config",
            "--env",
            "--ae",
            "--ak",
            "--agent-kwarg",
            "--override-cpus",
            "-r",
            "--max-retries",
        ),
        *("--agent-timeout", "--silent"),
    }
)

_OUR_WAY: dict[tuple[str, ...], str] = {
    ("--agent-import-path",): "agents are commands here: --command 'python3 /agent/agent.py' --agent-files DIR",
    ("--environment-import-path",): "a backend of your own is a plug-in of seatrial.backends; name it with -e",
    ("--ek", "--environment-kwarg"): "backends take no arguments; see --image, --network, --memory, --cpus, --storage",
    ("--ve", "--verifier-env"): "variables of a verifier are in [verifier] env of task.toml; --allow-env lets them in",
    ("--verifier-import-path", "--verifier-kwarg", "--vk"): "verifiers are the tasks' own tests/test.sh",
    ("--orchestrator", "--ok", "--orchestrator-kwarg"): "trials run on this machine, -n at a time",
    ("--retry-include", "--retry-exclude"): "only failures of the machine or a provider are tried again: --retries N",
    ("--artifact",): "name what to keep as `artifacts` in task.toml; --keep snapshot keeps the whole end state",
    ("--override-gpus",): "sandboxes have no graphics processors; --force runs such tasks without",
    ("--task-git-url", "--task-git-commit"): "clone the repository and name its folder with -p",
    ("--registry-url", "--registry-path"): "registries are not read; download the tasks and name the folder with -p",
    ("--agent-setup-timeout-multiplier", "--environment-build-timeout-multiplier"): (
        "the time of builds is build_timeout_sec in [environment] of task.toml"
    ),
    ("--export-repo", "--export-episodes"): "what agents and models said is in calls.jsonl of every trial's folder",
}
_OUR_WAY_OF_FLAGS: dict[tuple[str, ...], str] = {
    ("--no-delete",): "sandboxes are always removed; --keep snapshot keeps their end state",
    ("--disable-verification",): "every trial is verified; without a verdict there would be no result",
    ("--export-traces", "--export-sharegpt", "--export-push"): "`seatrial calls JOB TRIAL` prints what was said",
    ("--launch", "--upload"): "everything runs on this machine, and nothing is uploaded",
}
_NOT_NEEDED = ("-y", "--yes", "--delete", "--no-force-build", "--debug", "--enable-verification")


def _refuse(reason: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(_: click.Context, option: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(f"{'/'.join(option.opts)} is an option of Harbor: {reason}")

    return callback


def _stands_for(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Hand a value on under the name of an option of ours."""

    def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            context.params[name] = value

    return callback


def _take_dataset(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> None:
    """A dataset that is a folder is one here too; one of Harbor's registry cannot be had by its name."""
    for dataset in value:
        if not Path(dataset).is_dir():
            raise click.BadParameter(
                f"{dataset} is not a folder, and Harbor's registry is not read; download it "
                f"(`harbor download {dataset}`, or git clone) and name the folder with -p",
                param=option,
            )
    context.params["paths"] = (*context.params.get("paths", ()), *value)


HARBOR_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        *("-d", "--dataset"),
        "dataset",
        multiple=True,
        hidden=True,
        expose_value=False,
        callback=_take_dataset,
    ),
    *(
        click.option(spelling, type=_SIZE, hidden=True, expose_value=False, callback=_stands_for(name))
        for spelling, name in (("--override-memory-mb", "memory_mb"), ("--override-storage-mb", "storage_mb"))
    ),
    *(
        click.option(*names, multiple=True, hidden=True, expose_value=False, callback=_refuse(reason))
        for names, reason in _OUR_WAY.items()
    ),
    *(
        click.option(*names, is_flag=True, hidden=True, expose_value=False, callback=_refuse(reason))
        for names, reason in _OUR_WAY_OF_FLAGS.items()
    ),
    *(click.option(name, is_flag=True, hidden=True, expose_value=False) for name in _NOT_NEEDED),
)
