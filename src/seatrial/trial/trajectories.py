"""The trajectory of each round of a trial, made from its calls when the trial is over. None of it changes a result."""

import asyncio
from pathlib import Path

from seatrial.concurrency import finish
from seatrial.trial.log import RoundLog, TrialLog


async def keep_trajectories(log: TrialLog, folder: Path) -> None:
    """Write a trajectory for each round that was given a model. One that cannot be made is told of, nothing more."""
    for notes in log.rounds:
        if notes.model_usage is not None:
            await _keep(log, notes, folder / notes.round.folder)


async def _keep(log: TrialLog, notes: RoundLog, folder: Path) -> None:
    # Only for trials with a model.
    from seatrial.trajectories.atif import session_of  # noqa: PLC0415
    from seatrial.trajectories.files import keep_trajectory  # noqa: PLC0415

    session = session_of(log.trial_id, notes.round.name)
    try:
        # In a thread, for other trials go on meanwhile; to its end, for it writes to a folder that may be removed.
        reason = await finish(asyncio.to_thread(keep_trajectory, folder, log.agent, session))
    except Exception as error:  # noqa: BLE001 - the verdict is safe, and no text of a stranger may take it away
        reason = f"{type(error).__name__}: {error}"
    if reason:
        log.tell(f"{session}: no trajectory was made: {reason}")
