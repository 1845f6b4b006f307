"""A sound verifier gets an A, and once it is spoilt in one way at a time, that is named by the check for it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from seatrial.check.battery import CHECKS, BatteryPlan, check_task
from seatrial.check.examiner import CheckTools, Examiner
from seatrial.jobs.admission import Admission
from seatrial.jobs.machinery import open_machinery
from seatrial.model.check import TaskCheck
from seatrial.model.job import TrialOptions
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from tests.check.weakened import EXAMPLE, WEAKENINGS, Weakening
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root
OPTIONS = TrialOptions(image="host", enforcement="partial")


def checked(root: Path, folder: Path, *only: str) -> TaskCheck:
    """What some checks say of a task, or all of them."""

    async def check() -> TaskCheck:
        async with open_machinery("embedded", OPTIONS) as machinery:
            tools = CheckTools(machinery, Admission(2, 4096), OPTIONS)
            examiner = Examiner(load_task(root), digest_folder(root), tools, folder)
            plan = BatteryPlan(checks=tuple(each for each in CHECKS if not only or each.CHECK in only), repeats=3)
            return await check_task(examiner, plan, "tasks/one")

    return asyncio.run(check())


def told(result: TaskCheck) -> set[tuple[str, str]]:
    """The check and the subject of each finding that matters."""
    return {(each.check, each.subject) for each in result.findings if each.weight != "note"}


@pytest.mark.whole
def test_the_sound_one_gets_an_a_from_all_checks(tmp_path):
    result = checked(EXAMPLE, tmp_path)
    assert (result.grade, result.findings, result.reasons) == ("A", (), ("nothing was found",))
    assert result.verifications > 2 * result.rebuilt


@pytest.mark.parametrize("weakening", sampled(WEAKENINGS), ids=lambda each: each.name)
def test_each_weakening_is_named(weakening: Weakening, tmp_path):
    root = Path(shutil.copytree(EXAMPLE, tmp_path / "task"))
    weakening.spoil(root)
    result = checked(root, tmp_path / "files", weakening.check)
    found = told(result)
    assert found, (result.reasons, result.outcomes)
    if weakening.subject:
        assert found == {(weakening.check, weakening.subject)}
