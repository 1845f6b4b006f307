"""What judging end states costs: from one that was kept, against a trial for each verification; and keeping it.

Both take turns, two at once, for the speed of a machine changes from one minute to the next. The medians of all turns
are shown. Then five checks of 155 tasks, copies of the smallest example. Takes about three minutes.
"""

import asyncio
import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.trials import EXAMPLES, MEMORY, cpu_sec
from seatrial.check.battery import CHECKS, BatteryPlan
from seatrial.check.run import CheckFolder, CheckRun, TaskToCheck, run_checks
from seatrial.cli.long_run import relax_gc
from seatrial.concurrency import run_all
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task, read_folder
from seatrial.tasks.outline import TaskOutline
from seatrial.trial.end_state import EndState, StateBench
from seatrial.trial.place import find_place
from seatrial.trial.repeats import KeptTrial, kept_verification
from seatrial.trial.rounds import rounds_of
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery, TrialSpec

SMALLEST = EXAMPLES / "voltage-drop"
WORKING_SEC = 0.3
AT_ONCE, TURNS, EACH = 2, 7, 16
CHECKED_AT_ONCE = 4  # as the command does on up to 4 cores
TASKS, FIVE, PROMISED_SEC = 155, ("V1", "V2", "V3", "V10", "V11"), 60.0
PROMISED_RATIO, PROMISED_SHARE, PROMISED_BYTES = 3.0, 0.05, 2**20

Work = Callable[[Path], Awaitable[object]]


class Cost(NamedTuple):
    """How many a second, and milliseconds of CPU for each with all that ran for it."""

    rate: float
    cpu_ms: float


async def measure(work: Work, folder: Path) -> Cost:
    """Do something some times, two at once, each in a folder of its own."""

    async def work_in_folder(number: int) -> None:
        place = folder / f"{number}"
        place.mkdir(parents=True)
        await work(place)

    before, started = cpu_sec(), time.perf_counter()
    await run_all(range(EACH), work_in_folder, AT_ONCE)
    cost = Cost(EACH / (time.perf_counter() - started), (cpu_sec() - before) / EACH * 1000)
    shutil.rmtree(folder)
    return cost


async def take_turns(works: Sequence[Work], folder: Path) -> list[list[Cost]]:
    """The costs of several kinds of work, turn by turn, after a turn that does not count."""
    places = (folder / f"turn{number}" for number in itertools.count())
    return [[await measure(work, next(places)) for work in works] for _ in range(TURNS + 1)][1:]


def oracle(task: Path, **options: object) -> TrialSpec:
    return TrialSpec(
        trial_id=f"{task.name}.oracle.1",
        task=load_task(task),
        task_digest=digest_folder(task),
        agent=AgentOptions(name="oracle"),
        options=TrialOptions.model_validate({"image": "host", **options}),
    )


def working_task(folder: Path) -> Path:
    """The smallest example with a solution that takes its time, as those of real tasks do."""
    task = folder / f"{SMALLEST.name}-at-work"
    shutil.copytree(SMALLEST, task)
    script = task / "solution" / "solve.sh"
    first, _, rest = script.read_text().partition("\n")
    script.write_text(f"{first}\nsleep {WORKING_SEC}\n{rest}")
    return task


async def kept_state(spec: TrialSpec, machinery: Machinery, folder: Path) -> EndState:
    """The end state of one trial, as it was kept."""
    folder.mkdir()  # noqa: ASYNC240 - one directory
    record = await run_trial(spec, machinery, folder)
    assert record.evaluation is not None
    assert record.evaluation.reward == 1.0
    trial, (round_,) = KeptTrial(record, folder), rounds_of(spec.task)
    place = await find_place(spec, machinery)
    return EndState(kept_verification(spec, round_, place, trial, folder), archive=trial.archive(round_))


def trials_of(spec: TrialSpec, machinery: Machinery) -> Work:
    """A trial each time."""
    return lambda place: run_trial(spec, machinery, place)


async def show_verifications(task: Path, machinery: Machinery, folder: Path) -> None:
    """Verifications from one kept end state, against trials."""
    spec = oracle(task, keep="record")
    kept = replace(spec, options=spec.options.model_copy(update={"keep": "snapshot"}))
    state = await kept_state(kept, machinery, folder / "kept")
    async with StateBench(machinery) as bench:
        turns = await take_turns([trials_of(spec, machinery), lambda place: bench.judge(state, place)], folder)
        print(
            f"  {task.name:<24} {median(turns, 0).rate:9.1f} {median(turns, 1).rate:15.1f}"
            f" {statistics.median(ours.rate / trial.rate for trial, ours in turns):9.2f}"
            f" {bench.laid_out:>11} for {bench.verifications}"
        )


def median(turns: list[list[Cost]], index: int) -> Cost:
    return Cost(*map(statistics.median, zip(*(turn[index] for turn in turns), strict=True)))


async def show_keeping(machinery: Machinery, folder: Path) -> None:
    """What it costs to keep the end state of a trial where that is cheap, against never."""
    specs = [oracle(SMALLEST, keep=keep) for keep in ("record", "auto")]
    turns = await take_turns([trials_of(spec, machinery) for spec in specs], folder)
    state = await kept_state(specs[1], machinery, folder / "kept")
    size = state.archive.stat().st_size if state.archive else 0
    slower = statistics.median(without.rate / with_.rate for without, with_ in turns) - 1
    dearer = statistics.median(with_.cpu_ms / without.cpu_ms for without, with_ in turns) - 1
    print(
        f"\nkeeping the end state of a trial of {SMALLEST.name}"
        f"   promised ≤ {PROMISED_SHARE:.0%} of its time, ≤ {PROMISED_BYTES:,} bytes\n"
        f"  without {1000 / median(turns, 0).rate:6.1f} ms, {median(turns, 0).cpu_ms:6.1f} ms of CPU\n"
        f"  with    {1000 / median(turns, 1).rate:6.1f} ms, {median(turns, 1).cpu_ms:6.1f} ms of CPU"
        f"   {slower:+.1%} of the time, {dearer:+.1%} of the CPU, {size:,} bytes"
    )


async def show_battery(folder: Path) -> None:
    """Six checks of many tasks: what a benchmark's author waits for."""
    tasks = []
    for number in range(TASKS):
        root = Path(shutil.copytree(SMALLEST, folder / "tasks" / f"task-{number:03}"))
        tasks.append(TaskToCheck(read_outline(root), str(root)))
    checks = tuple(check for check in CHECKS if check.CHECK in FIVE)
    run = CheckRun(tuple(tasks), TrialOptions(image="host"), BatteryPlan(checks), CHECKED_AT_ONCE)
    before, started = cpu_sec(), time.perf_counter()
    results = CheckFolder(folder / "results")
    with results.lock():
        found = await run_checks(run, results, lambda _: None)
    seconds, judged = time.perf_counter() - started, sum(check.verifications for check in found)
    assert all(check.grade == "A" for check in found), [check.reasons for check in found if check.grade != "A"][:3]
    print(
        f"\n{TASKS} tasks × {len(FIVE)} checks ({', '.join(FIVE)})   promised ≤ {PROMISED_SEC:g} s on 2 cores\n"
        f"  {seconds:.1f} s, {judged:,} verifications, {judged / seconds:.1f} a second, "
        f"{(cpu_sec() - before) / judged * 1000:.1f} ms of CPU each"
    )


def read_outline(root: Path) -> TaskOutline:
    found = read_folder(root, root.name)
    assert isinstance(found, TaskOutline)
    return found


async def main() -> None:
    """Measure and print."""
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="seatrial-bench-", dir=MEMORY) as name:
        folder = Path(name)
        async with EmbeddedBackend() as backend:
            machinery = Machinery(backend)
            print(
                f"one end state judged again and again, {AT_ONCE} at once, {TURNS} turns"
                f"   promised ≥ {PROMISED_RATIO:g} where a solution takes {WORKING_SEC:g} s\n"
                f"  {'':<24} {'trials/s':>9} {'verifications/s':>15} {'ratio':>9}   states made"
            )
            for number, task in enumerate((SMALLEST, working_task(folder))):
                (folder / f"{number}").mkdir()
                await show_verifications(task, machinery, folder / f"{number}")
            (folder / "keeping").mkdir()
            await show_keeping(machinery, folder / "keeping")
        await show_battery(folder)


if __name__ == "__main__":
    relax_gc()  # as `seatrial run` does
    asyncio.run(main())
