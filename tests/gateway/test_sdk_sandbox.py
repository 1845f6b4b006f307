"""The official SDKs inside a sandbox without a network, installed there by an image layer."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import pytest

from seatrial.gateway.access import ModelAccess
from seatrial.gateway.calls import read_calls
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.sandbox.api import Capabilities, Image, Sandbox, SandboxSpec, open_sandbox, run_shell
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.testing.fake_provider import Say, Step
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from tests.gateway import sdk_program
from tests.gateway.test_sdk_ways import SAID, SCRIPT
from tests.gateway.upstream_calls import provider
from tests.trial.support import Ran, trial_spec, write_task

PYTHON = "/usr/bin/python3"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class LayeredBackend:
    """The embedded backend; every sandbox on the host's system has one more layer."""

    def __init__(self, layer: Path) -> None:
        self._inner = EmbeddedBackend()
        self._image = Image(f"host + {layer}", layers=(layer,), base="host")

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    async def probe(self) -> Capabilities:
        return await self._inner.probe()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return await self._inner.create(replace(spec, image=self._image))


def requirements(*names: str) -> Iterator[metadata.Distribution]:
    """These distributions and all that they need here."""
    pending, seen = list(names), set()
    while pending:
        name = pending.pop()
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of an extra, or for another system
        if found.name not in seen:
            seen.add(found.name)
            yield found
            wanted = [text for text in found.requires or () if "extra ==" not in text]
            pending += [match[0] for text in wanted if (match := _NAME.match(text))]


def link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer with the SDKs below /opt/sdk and the program that uses them."""
    if not Path(PYTHON).exists():
        pytest.skip(f"{PYTHON} is missing")
    version = subprocess.run(
        [PYTHON, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, check=True
    )
    if version.stdout.strip() != str(tuple(sys.version_info[:2])):
        pytest.skip(f"the SDKs of {sys.version_info[:2]} do not run on Python {version.stdout.strip()} of the system")
    root = tmp_path_factory.mktemp("sdk-layer")
    for found in requirements("openai", "anthropic"):
        for file in found.files or ():
            source = Path(str(found.locate_file(file)))
            if ".." not in file.parts and source.exists():
                link(source, root / "opt/sdk" / file)
    link(Path(sdk_program.__file__), root / "opt/sdk/sdk_program.py")
    root.chmod(0o755)
    if asyncio.run(_lacks(root, "/opt/sdk")):
        pytest.skip("layers add nothing to the system in an ordinary user's sandboxes here")
    return root


async def _lacks(layer: Path, path: str) -> bool:
    async with LayeredBackend(layer) as backend, open_sandbox(backend, SandboxSpec()) as sandbox:
        return (await run_shell(sandbox, f"test -e {path}")).exit_code != 0


async def run(layer: Path, folder: Path, script: Sequence[Step], *parts: str, **options: Any) -> Ran:
    """A trial of the program in front of a provider that follows a script."""
    command = f"PYTHONPATH=/opt/sdk {PYTHON} /opt/sdk/sdk_program.py {' '.join(parts)}"
    trial = folder / "trial"
    trial.mkdir()
    async with LayeredBackend(layer) as backend, provider(*script, retries=0) as (upstream, _):
        access = ModelAccess(upstream, SessionOptions(**options), PriceTable(models={}))
        spec = trial_spec(write_task(folder / "task"), command, network="none")
        return Ran(await run_trial(spec, Machinery(backend, model=access), trial), trial)


@pytest.mark.whole
def test_all_ways_of_asking_work_inside_a_sandbox(layer, tmp_path):
    """One trial for all of them: to load two SDKs takes longer than everything else."""
    asked = [*map(Say, SCRIPT * 3), *[Say("ok")] * 10]
    parts = ("chat", "responses", "messages", "models", "side_by_side", "refused")
    ran = asyncio.run(run(layer, tmp_path, asked, *parts, max_turns=15 + 8))
    assert ran.record.failure is None
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    found = orjson.loads(ran.text("agent/stdout.txt"))
    plain = [list(map(list, each)) if isinstance(each, list) else each for each in SAID]
    assert {part: found[part] for part in parts[:3]} == dict.fromkeys(parts[:3], plain)
    assert (found["models"], found["count"]) == (["fake"], 42)
    assert found["side_by_side"] == ["ok"] * 8
    assert found["refused"] == ["insufficient_quota", 429]
    kinds = [call.error and call.error.kind for call in read_calls(ran.folder / "calls.jsonl")]
    assert kinds == [None] * 23 + ["budget"] * 2
    assert ran.record.model_usage is not None
    assert ran.record.model_usage.calls == 23
