"""Trials on a disk, with whatever a test puts beside their records, and the pages that are made of them."""

import datetime as dt
import json
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from seatrial.analysis.loaded import load_job
from seatrial.gateway.calls import CallLog
from seatrial.model.job import AgentOptions, JobFile, LockedTask
from seatrial.model.record import TrialRecord
from seatrial.model.trace import ModelCall, TokenUsage
from seatrial.store.job_store import JobStore
from seatrial.tasks.layout import digest_folder
from seatrial.view.access import ViewSettings
from seatrial.view.app import Viewer
from seatrial.view.opened import OpenedTrial, open_trial
from seatrial.view.pages.trial import trial_page
from tests.jobs.samples import NOON, job_spec

TRIAL = "add.noop.1"
GONE = Path("/tasks/gone")


def keep_trial(
    folder: Path, made: TrialRecord, files: Mapping[str, str | bytes] | None = None, root: Path = GONE, **spec: Any
) -> JobStore:
    """A job with one trial, and these files in its folder. `root` is where its task is."""
    digest = digest_folder(root) if root.is_dir() else made.task.digest
    made = made.model_copy(update={"task": made.task.model_copy(update={"digest": digest}), "job": folder.name})
    task = LockedTask(id=made.task.id, name=made.task.name, root=str(root), digest=digest)
    asked = job_spec(**{"name": folder.name, "agents": (AgentOptions(name="noop"),), **spec})
    store = JobStore.create(folder, JobFile(seatrial_version="0.1", created_at=NOON, spec=asked, tasks=(task,)))
    with store.draft(made.trial_id) as draft:
        write_files(draft.path, files or {})
        draft.commit(made)
    return store


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def opened(store: JobStore, trial_id: str = TRIAL) -> OpenedTrial:
    return open_trial(store.path.name, load_job(store.path), trial_id)


def view_of(*folders: Path) -> Viewer:
    return Viewer(ViewSettings(folders))


def page_of(store: JobStore, trial_id: str = TRIAL) -> "Page":
    return Page(trial_page(view_of(store.path), store.path.name, trial_id))


class Page(HTMLParser):
    """A page as a browser reads it: its words, its elements with their attributes, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self._words).split())

    def values(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def told_calls(folder: Path, count: int, failing: int | None = None, text: str = "ok") -> bytes:
    """The calls of an agent that uses a shell once in each; one of these fails, and nothing recovers it."""
    messages: list[Any] = [{"role": "user", "content": text}]
    with CallLog(folder) as log:
        for index in range(count):
            program = "make" if index == failing else "ls"
            use = {"type": "tool_use", "id": f"use-{index}", "name": "bash", "input": {"command": f"{program} {text}"}}
            said = {"role": "assistant", "content": [{"type": "thinking", "thinking": text}, use]}
            log.write(
                ModelCall(
                    index=index,
                    dialect="anthropic",
                    path="/v1/messages",
                    started_at=NOON + dt.timedelta(seconds=index),
                    duration_sec=1.0,
                    messages=[*messages],
                    request={"system": text},
                    response=said,
                    status=200,
                    usage=TokenUsage(input_tokens=100 + index, output_tokens=7),
                    cost_usd=0.25,
                )
            )
            output = f"{text}\nexit code: {2 if index == failing else 0}"
            result = {"type": "tool_result", "tool_use_id": f"use-{index}", "content": output}
            messages += [said, {"role": "user", "content": [result]}]
    return (folder / "calls.jsonl").read_bytes()


def changes(**kinds: list[str]) -> str:
    """What changes.json says."""
    return json.dumps(kinds)
