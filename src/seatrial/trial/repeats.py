"""The verifier asked several times about the same end state, and the one judgement that becomes of it.

Each repeat has a sandbox of its own where the end state was kept, so that none meets what another left. Where it was
not, or while processes of the agent run on, repeats come one after the other in the same sandbox, and are said to.
"""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from seatrial.model.job import TrialOptions
from seatrial.sandbox.api import Sandbox
from seatrial.scoring.repeats import RepeatPlace, compare_verdicts, lowest
from seatrial.trial.judge import judge
from seatrial.trial.judgement import Judgement, evaluate
from seatrial.trial.kept import judge_kept
from seatrial.trial.machinery import Machinery
from seatrial.trial.rounds import Round
from seatrial.trial.verification import Verification

JudgeOnce = Callable[[Verification], Awaitable[Judgement]]


async def judge_repeatedly(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, archive: Path | None = None
) -> Judgement:
    """Judge what an agent left in a sandbox as often as the run wants; `archive` is its end state, if it was kept."""
    own_files = verification.place.capabilities.isolation == "namespaces"
    archive = archive if own_files else None
    first = await judge(verification, sandbox, machinery, archive)
    if archive is not None and archive.is_file():
        return await with_others(verification, first, lambda asked: judge_kept(asked, archive, machinery), "fresh")
    return await with_others(verification, first, lambda asked: judge(asked, sandbox, machinery), "same")


async def with_others(verification: Verification, first: Judgement, again: JudgeOnce, place: RepeatPlace) -> Judgement:
    """The one judgement that becomes of a first one and as many others as the run wants.

    What further runs print and write goes to `verifier/repeat-2` and so on.
    """
    judgements = [first]
    for number in range(2, verification.options.verify_repeats + 1):
        scratch = verification.folder / f".repeat-{number}"
        try:
            judgement = await again(replace(verification, folder=scratch))
            judgements.append(_moved(judgement, verification, scratch, number))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if len(judgements) == 1:
        return first
    return settle(verification.round, judgements, verification.options, place)


def _moved(judgement: Judgement, verification: Verification, scratch: Path, number: int) -> Judgement:
    """The judgement with its files beside those of the first one."""
    name = f"verifier/repeat-{number}"
    (scratch / "verifier").rename(verification.folder / name)
    base = Path(verification.round.folder, name).as_posix()
    paths = {"stdout_path": f"{base}/stdout.txt", "stderr_path": f"{base}/stderr.txt"}
    return replace(judgement, run=judgement.run.model_copy(update=paths))


def settle(round_: Round, judgements: Sequence[Judgement], options: TrialOptions, place: RepeatPlace) -> Judgement:
    """One judgement of several on the same end state: the one with the lowest reward, which knows of the others."""
    repeated = compare_verdicts([evaluate(round_, each, options) for each in judgements], place)
    chosen = judgements[lowest(repeated.rewards)]
    run = chosen.run.model_copy(update={"repeats": repeated.rewards, "repeated_in": place})
    return replace(chosen, run=run, repeated=repeated)
