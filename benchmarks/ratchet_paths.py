"""The hot paths that the ratchet counts: a function for each, and the table of them.

A function prepares what its path takes, in a folder of its own, and returns what is counted. That is carried out twice
in the same process and counted the second time; a cold start is counted the first time, in a process where nothing has
been imported before. What has to be closed in the end goes to the stack. Nothing may depend on chance, on the clock, or
on who else is at work on this machine.
"""

import asyncio
import contextlib
import io
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple

Work = Callable[[], object]

TRIALS = 20
PLANNED = 1_000
STORED = (1_000, 10)
"""Tasks, and attempts at each."""
CHANGED = 3_000


class HotPath(NamedTuple):
    """What is done before anything is counted; and whether all that it imports counts, too."""

    prepare: Callable[[Path, ExitStack], Work]
    cold: bool = False


# One trial.


def null_trial(scratch: Path, _: ExitStack) -> Work:
    """Trials whose sandboxes do nothing, one after the other."""
    from benchmarks.trials import EXAMPLES, NULL_FILES, run_trials  # noqa: PLC0415 - cold starts need none of it
    from seatrial.testing.null import NullBackend  # noqa: PLC0415

    folders = (scratch / str(number) for number in count())

    async def run() -> None:
        async with NullBackend(NULL_FILES) as backend:
            assert await run_trials(next(folders), EXAMPLES / "voltage-drop", TRIALS, 1, backend) == TRIALS

    return lambda: asyncio.run(run())


def empty_trial(scratch: Path, _: ExitStack) -> Work:
    """Trials that are over at once, whose records are stored."""
    from benchmarks.jobs import store_empty_trials  # noqa: PLC0415 - as above
    from benchmarks.trials import EXAMPLES  # noqa: PLC0415

    folders = (scratch / str(number) for number in count())
    return lambda: store_empty_trials(next(folders), EXAMPLES / "voltage-drop", TRIALS)


def oracle_trial(scratch: Path, stack: ExitStack) -> Work:
    """Trials in sandboxes of this machine: what this process does for them, not what runs in them."""
    from benchmarks.trials import EXAMPLES, run_trials  # noqa: PLC0415 - as above
    from seatrial.sandbox.embedded.backend import EmbeddedBackend  # noqa: PLC0415

    folders = (scratch / str(number) for number in count())
    runner, backend = stack.enter_context(asyncio.Runner()), EmbeddedBackend()
    runner.run(backend.__aenter__())
    stack.callback(lambda: runner.run(backend.__aexit__(None, None, None)))

    async def run() -> None:
        assert await run_trials(next(folders), EXAMPLES / "voltage-drop", TRIALS, 1, backend) == TRIALS

    return lambda: runner.run(run())


# A whole job.


def plan(scratch: Path, _: ExitStack) -> Work:
    """A job of many tasks, up to the moment in which its first trial could start."""
    from benchmarks.corpus import make_corpus  # noqa: PLC0415 - as above
    from benchmarks.jobs import NOOP  # noqa: PLC0415
    from seatrial.jobs.prepare import prepare_job  # noqa: PLC0415
    from seatrial.model.job import JobSpec  # noqa: PLC0415

    make_corpus(scratch / "tasks", PLANNED)
    spec = JobSpec(name="ratchet", tasks=(str(scratch / "tasks"),), agents=(NOOP,))
    folders = (scratch / str(number) for number in count())

    def work() -> None:
        assert len(prepare_job(spec, next(folders)).trials) == PLANNED

    return work


def resume(scratch: Path, _: ExitStack) -> Work:
    """A finished job that is to go on."""
    from benchmarks.jobs import make_finished  # noqa: PLC0415 - as above
    from seatrial.jobs.resume import prepare_resume  # noqa: PLC0415

    make_finished(scratch / "job", *STORED)

    def work() -> None:
        assert not prepare_resume(scratch / "job").trials

    return work


def show(scratch: Path, _: ExitStack) -> Work:
    """The results of a finished job, on a terminal's width of text."""
    from benchmarks.jobs import make_finished  # noqa: PLC0415 - as above

    make_finished(scratch / "job", *STORED)
    return lambda: command_line("show", str(scratch / "job"))


def report(scratch: Path, _: ExitStack) -> Work:
    """The same as a page of HTML."""
    from benchmarks.jobs import make_finished  # noqa: PLC0415 - as above

    make_finished(scratch / "job", *STORED)
    files = (str(scratch / f"{number}.html") for number in count())
    return lambda: command_line("report", str(scratch / "job"), "-o", next(files))


def job_page(scratch: Path, _: ExitStack) -> Work:
    """The page of the same job in a viewer that has read nothing before."""
    from benchmarks.jobs import make_finished  # noqa: PLC0415 - as above
    from seatrial.view.access import ViewSettings  # noqa: PLC0415
    from seatrial.view.app import Viewer  # noqa: PLC0415
    from seatrial.view.pages.job import job_page  # noqa: PLC0415

    make_finished(scratch / "job", *STORED)
    return lambda: job_page(Viewer(ViewSettings((scratch / "job",), token="t")), "job")  # noqa: S106 - of nobody


# What an agent changed.


def many_changes(scratch: Path, _: ExitStack) -> Work:
    """Many files in a new folder of the system: listed, compared with the image, and judged one by one."""
    from seatrial.model.record import FileChanges  # noqa: PLC0415 - as above
    from seatrial.sandbox.api import Image  # noqa: PLC0415
    from seatrial.sandbox.embedded.changes import find_changes  # noqa: PLC0415
    from seatrial.sandbox.embedded.roots import Tree  # noqa: PLC0415
    from seatrial.verify import curate  # noqa: PLC0415
    from seatrial.verify.facts import Surroundings  # noqa: PLC0415
    from seatrial.verify.originals import LocalOriginals  # noqa: PLC0415

    layer, folder = scratch / "layer", scratch / "state" / "upper" / "usr" / "lib" / "added"
    for each in (layer / "usr" / "bin", layer / "usr" / "lib", folder):
        each.mkdir(parents=True)
    for number in range(CHANGED):
        (folder / f"{number}").touch()
    image, tree = Image(reference="ratchet", layers=(layer,)), Tree("usr", (str(layer / "usr"),))
    originals = LocalOriginals(image)

    async def run() -> None:
        state = os.open(scratch / "state", os.O_RDONLY)
        found = FileChanges.model_validate_json(json.dumps(find_changes(state, [tree], 2 * CHANGED)))
        os.close(state)
        around = Surroundings(await curate.gather_facts(originals, image, found))
        around = await curate.with_replaced(around, found, originals)
        around = await curate.with_neighbours(around, found, originals)
        assert len(curate.decide(found, FileChanges(), (), around).kept) == CHANGED

    return lambda: asyncio.run(run())


# A model call and a rollout.


def gateway_path(name: str) -> Callable[[Path, ExitStack], Work]:
    """A path of ratchet_paths_gateway.py."""

    def prepare(scratch: Path, stack: ExitStack) -> Work:
        from benchmarks import ratchet_paths_gateway  # noqa: PLC0415 - as above

        work: Work = getattr(ratchet_paths_gateway, name)(scratch, stack)
        return work

    return prepare


# Cold starts.


def import_package(_: Path, __: ExitStack) -> Work:
    def work() -> None:
        import seatrial  # noqa: PLC0415, F401 - it is what is counted

    return work


def import_harbor_env(_: Path, __: ExitStack) -> Work:
    def work() -> None:
        from seatrial import HarborEnv  # noqa: PLC0415, F401 - it is what is counted

    return work


def show_help(_: Path, __: ExitStack) -> Work:
    return lambda: command_line("--help")


def run_one_trial(scratch: Path, _: ExitStack) -> Work:
    """The command `run`, from its start to the end of the trial."""
    task = scratch / "task"
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text('version = "1.0"\n')
    (task / "instruction.md").write_text("Do nothing.\n")
    (task / "tests" / "test.sh").write_text("#!/bin/sh\nmkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt\n")
    return lambda: command_line("run", str(task), "-a", "noop", "-q", "-o", str(scratch / "job"))


def command_line(*arguments: str) -> None:
    from seatrial.cli.main import run  # noqa: PLC0415 - what it imports counts

    with io.StringIO() as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        assert run([*arguments]) == 0


# A call of the gateway and a rollout go here.

PATHS: dict[str, HotPath] = {
    "null trial": HotPath(null_trial),
    "empty trial": HotPath(empty_trial),
    "oracle trial": HotPath(oracle_trial),
    "plan": HotPath(plan),
    "resume": HotPath(resume),
    "show": HotPath(show),
    "gateway call": HotPath(gateway_path("gateway_call")),
    "translated call": HotPath(gateway_path("translated_call")),
    "streamed chunks": HotPath(gateway_path("streamed_chunks")),
    "single-turn rollout": HotPath(gateway_path("single_turn_rollout")),
    "HarborEnv rollout": HotPath(gateway_path("harbor_env_rollout")),
    "report": HotPath(report),
    "job page": HotPath(job_page),
    "many changes": HotPath(many_changes),
    "import": HotPath(import_package, cold=True),
    "import HarborEnv": HotPath(import_harbor_env, cold=True),
    "--help": HotPath(show_help, cold=True),
    "run": HotPath(run_one_trial, cold=True),
}
