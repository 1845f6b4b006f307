"""An honest solution and its wrong counterpart, judged on a machine's own system or in an image with a past."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest

from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.resolver import ImageResolver
from seatrial.model.events import Notice, Observer
from seatrial.model.job import TrialOptions
from seatrial.sandbox.api import DEFAULT_PATH, Image, ImageConfig
from tests.conftest import sampled
from tests.trial.support import Desk, Ran, trial_spec, write_task

AGED = "test/aged:1"
VENV = "/opt/venv"
_PIP = "/usr/bin/python3 -m pip --disable-pip-version-check -q"
_INSTALL = "install --no-index --root-user-action=ignore --no-compile --find-links /app/shelf"
SYSTEM_PIP = f"{_PIP} {_INSTALL} --break-system-packages"

TEST = """#!/bin/bash
if bash -e /tests/check.sh > /logs/verifier/said.txt 2>&1; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def pip_into(environment: str) -> str:
    """The command that installs packages of the shelf into a virtual environment."""
    return f"{_PIP} --python {environment}/bin/python {_INSTALL}"


@dataclass(frozen=True, slots=True)
class Case:
    """What a task says, an honest answer, the verifier's check of it, and a wrong answer."""

    name: str
    says: str
    does: str
    check: str
    wrong: str = "true"
    image: Literal["host", "aged", "venv"] = "host"
    toml: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def parametrized(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """One test for each case, one of them in `make test`."""
    return pytest.mark.parametrize("case", sampled(cases), ids=[case.name for case in cases])


class OneImage:
    """A source that has one image, which was made of the machine's own system."""

    has_host = True

    def __init__(self, image: Image) -> None:
        self._image = image

    async def fetch(self, reference: str, observe: Observer[Notice]) -> Image:
        """The image, whatever it is called."""
        return self._image

    async def build(self, request: ImageRequest, policy: ImagePolicy, observe: Observer[Notice]) -> Image:
        """Nothing is built here."""
        raise NotImplementedError

    async def extend(self, image: Image, setup: Setup, observe: Observer[Notice]) -> Image:
        """Nothing is extended here."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs honest and wrong answers to the tasks of cases, with the packages of a shelf at hand."""

    desk: Desk
    shelf: Path
    layer: Path

    def run(self, case: Case, command: str) -> Ran:
        """One trial of a command at the task of a case."""
        root = self.desk.new_folder() / "task"
        files = {"tests/test.sh": TEST, "tests/check.sh": case.check, **case.files}
        write_task(root, toml=case.toml, files=files, instruction=case.says)
        shutil.copytree(self.shelf, root / "environment" / "shelf")
        spec = trial_spec(root, command)
        if case.image != "host":
            env = {"PATH": f"{VENV}/bin:{DEFAULT_PATH}"} if case.image == "venv" else {}
            image = Image(AGED, (self.layer,), "host", config=ImageConfig(env))
            images = ImageResolver(OneImage(image), lambda _: None)
            return self.desk.run_spec(replace(spec, options=TrialOptions(image=AGED)), images=images)
        return self.desk.run_spec(spec)

    def judge(self, case: Case) -> Ran:
        """Both answers get what they deserve, and nobody disputes it; returns the honest one's trial."""
        wrong = self.run(case, case.wrong)
        assert (wrong.reward, wrong.record.disputed_reward) == (0.0, None), _said(wrong)
        honest = self.run(case, case.does)
        assert (honest.reward, honest.record.disputed_reward) == (1.0, None), _said(honest)
        return honest


def _said(ran: Ran) -> str:
    """Everything that tells why a trial went as it did."""
    names = ("agent/stdout.txt", "agent/stderr.txt", "verifier/files/said.txt", "verifier/as-left/files/said.txt")
    found = [f"--- {name}\n{ran.text(name)[-1500:]}" for name in names if (ran.folder / name).is_file()]
    put_back = [f"restored: {ran.run.restored[:20]}, hidden: {ran.run.hidden[:20]}"]
    return "\n".join([*put_back, *found])
