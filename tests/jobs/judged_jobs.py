"""Jobs whose trials left something to judge, and models that judge them in this process."""

import io
import json
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from seatrial.gateway.upstreams.function import FunctionModel
from seatrial.jobs import judge_model
from seatrial.store.job_store import JobStore
from seatrial.trial.snapshot import ARCHIVE
from tests.conftest import MakeTask
from tests.jobs.regrading import finish_job
from tests.jobs.samples import job_spec

REPORT = "/workspace/report.md"
RUBRIC = """
guard = false
[[question]]
id = "units"
text = "Are there units?"
tag = "no_units"
[[question]]
id = "sign"
text = "Is the sign right?"
"""


def judged_job(make_task: MakeTask, folder: Path, names: tuple[str, ...] = ("add", "sort"), **spec: Any) -> JobStore:
    """A job of which each trial left a report with the name of its task."""
    for name in names:
        make_task(f"tasks/{name}", instruction=f"Write the answer to `{REPORT}`.\n")
    store = JobStore.open(finish_job(job_spec(tasks=(str(folder / "tasks"),), **spec), folder / "job"))
    for name in names:
        leave(store, f"{name}.noop.1", {REPORT: f"The report of {name}: 4.2 V"})
    (folder / "rubric.toml").write_text(RUBRIC)
    return store


def leave(store: JobStore, trial_id: str, files: dict[str, str]) -> None:
    """Give a trial an end state with these files."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(path.strip("/"))
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    packed = zstandard.ZstdCompressor().compress(file.getvalue())
    (store.trial_folder(trial_id) / ARCHIVE).write_bytes(packed)


Answer = Callable[[dict[str, Any]], Any]


def answering(known: dict[str, Any]) -> Answer:
    """A model that gives these answers to the questions that it is asked."""

    def answer(request: dict[str, Any]) -> str:
        asked = request["response_format"]["json_schema"]["schema"]["required"]
        return json.dumps({name: {"reason": "so it is", "quotes": [], "answer": known[name]} for name in asked})

    return answer


def judge_by(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> list[dict[str, Any]]:
    """Have a function answer for all upstreams. Returns the list that its requests are added to."""
    requests: list[dict[str, Any]] = []

    async def heard(request: dict[str, Any]) -> Any:
        requests.append(request)
        return answer(request)

    @asynccontextmanager
    async def opened(*_: Any, **__: Any) -> AsyncIterator[FunctionModel]:
        yield FunctionModel(heard)

    monkeypatch.setattr(judge_model, "open_upstream", opened)
    return requests
