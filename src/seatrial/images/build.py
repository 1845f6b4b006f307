"""Building an image from a Dockerfile, without Docker: every step that changes files becomes a layer, made once.

Steps are known by what they do and what they do it on (`building/step_cache.py`), so builds share what they have in
common, and a build that was done before needs no sandbox at all.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.errors import BuildError, UsageError
from seatrial.images.building.instructions import Arg, From, Step, read_instructions, read_steps
from seatrial.images.building.plan import (
    Arguments,
    ConfigDraft,
    StagePlan,
    find_stage,
    find_target,
    needed_stages,
    split_stages,
)
from seatrial.images.building.stage import Bases, ResolveBase, Stage, continue_stage
from seatrial.images.building.step_cache import BuildEvent, BuildJournal, StepCache, StepOutput
from seatrial.images.building.steps import Workshop, carry_out
from seatrial.images.config import Platform, digest_of, host_platform, parse_platform, write_document
from seatrial.images.store import Store, StoredImage
from seatrial.model.events import Observer, unobserved
from seatrial.sandbox.api import Image, Network, SandboxBackend
from seatrial.tasks.build_context import ContextTree, Origin, read_ignore_rules
from seatrial.tasks.dockerfile import Dockerfile, WordError, expand, parse_dockerfile

_MAX_DOCKERFILE = 2**20
_PUBLIC = Network("public")


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """What to build."""

    context: Path
    dockerfile: Path | None = None
    """The context's own unless another is named, or its `text` is given."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    target: str | None = None
    """A stage; None for the last."""
    platform: Platform = field(default_factory=host_platform)
    network: Network = _PUBLIC
    """For the commands of RUN."""
    timeout_sec: float | None = None
    run_timeout_sec: float | None = None
    """For each command of RUN."""
    text: str | None = None

    @property
    def file(self) -> Path:
        return self.dockerfile or self.context / "Dockerfile"


@dataclass(frozen=True, slots=True)
class BuildMeans:
    """What to build with. `open_backend` is used only if something has to be run, and left at the end of the build."""

    store: Store
    resolve_base: ResolveBase
    open_backend: Callable[[], AbstractAsyncContextManager[SandboxBackend]]
    observer: Observer[BuildEvent] = unobserved
    ca: bytes | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """What a build came to: an image to make sandboxes from, and the log. On the host's system, nothing is stored."""

    image: Image
    stored: StoredImage | None
    log: Path
    steps: int
    cached: int


async def build_image(spec: BuildSpec, means: BuildMeans) -> Built:
    """Build an image, or find that it has been built before.

    Raises BuildError with file and line for whatever is wrong with the Dockerfile or fails in it, UsageError for a bad
    request, and what finding base images and running sandboxes raises. A build that fails leaves its finished steps.
    """
    if not spec.context.is_dir():
        raise UsageError(f"{spec.context} is not a directory; expected the build context")
    dockerfile = parse_dockerfile(_read(spec.file) if spec.text is None else spec.text, str(spec.file))
    steps = read_steps(dockerfile)
    async with AsyncExitStack() as stack:
        build = _Build(spec, means, dockerfile, stack)
        async with _in_time(spec, lambda: build.place):
            return await build.run(steps)


@asynccontextmanager
async def _in_time(spec: BuildSpec, place: Callable[[], str]) -> AsyncIterator[None]:
    """End what is in the block when the time of the build is over. Raises BuildError then."""
    limit = asyncio.timeout(spec.timeout_sec)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise BuildError(f"{place()}: the build was ended here after {spec.timeout_sec:g} seconds") from None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_DOCKERFILE + 1)
    except FileNotFoundError:
        raise BuildError(f"{path}: there is no such file; expected a Dockerfile") from None
    except OSError as error:
        raise BuildError(f"{path}: it cannot be read: {error.strerror}") from error
    if len(data) > _MAX_DOCKERFILE:
        raise BuildError(f"{path}: it has more than {_MAX_DOCKERFILE:,} bytes; is it a Dockerfile?")
    return data.decode("utf-8", "replace")


class _Build:
    """One build."""

    def __init__(self, spec: BuildSpec, means: BuildMeans, dockerfile: Dockerfile, stack: AsyncExitStack) -> None:
        self._spec = spec
        self._means = means
        self._dockerfile = dockerfile
        self._stack = stack
        self._backend: SandboxBackend | None = None
        self._cache = StepCache(means.store)
        self._bases = Bases(means.store, means.resolve_base, dockerfile.escape)
        self._arguments = Arguments(spec.arguments, spec.platform, dockerfile.escape)
        self._context = ContextTree(spec.context, read_ignore_rules(spec.context, spec.file))
        self._journal = BuildJournal(means.observer)
        self._plans: list[StagePlan] = []
        self._stages: dict[int, Stage] = {}
        self.place = str(spec.file)

    async def run(self, steps: Sequence[Step]) -> Built:
        declared, self._plans = split_stages(steps)
        with self._at(self._plans[0].start):
            for arg in declared:
                self._arguments.declare_globally(arg)
        bases = [self._base_name(plan) for plan in self._plans]
        with self._at(self._plans[-1].start):
            target = find_target(self._plans, self._spec.target)
        needed = needed_stages(self._plans, bases, target)
        self._journal.total = sum(1 + len(plan.steps) for plan in needed)
        for plan in needed:
            self._stages[plan.number] = await self._build_stage(plan, bases[plan.number])
        if unused := self._arguments.unused():
            self._means.observer(StepOutput(f"not used: --build-arg {', '.join(unused)}\n".encode()))
        return self._finish(self._stages[target.number])

    @contextmanager
    def _at(self, step: Step) -> Iterator[None]:
        """Say of what goes wrong where it did."""
        self.place = f"{self._dockerfile.name}:{step.line}"
        try:
            yield
        except PermissionError as error:
            why = "" if os.geteuid() == 0 else "; only root can read files of other users in an image here"
            raise BuildError(f"{self.place}: {step.text.partition(' ')[0]}: {error}{why}") from error
        except (WordError, OSError) as error:
            raise BuildError(f"{self.place}: {step.text.partition(' ')[0]}: {error}") from error

    def _base_name(self, plan: StagePlan) -> str:
        with self._at(plan.start):
            name = expand(plan.base.image, self._arguments.declared, escape=self._dockerfile.escape)
            if not name:
                raise WordError(f"{plan.base.image} stands for nothing; give it a value with --build-arg")
            return name

    async def _build_stage(self, plan: StagePlan, base: str) -> Stage:
        with self._journal.step(plan.start.text), self._at(plan.start):
            stage = await self._begin(plan, base)
            triggers = self._triggers(stage, base)
        shop = self._workshop(plan)
        for step in (*triggers, *plan.steps):
            with self._journal.step(step.text) as entry, self._at(step):
                if isinstance(step.what, Arg):
                    self._arguments.declare(step.what, stage.args, stage.draft)
                elif not isinstance(step.what, From):
                    entry.how = await carry_out(step.what, stage, shop)
                    entry.key = None if entry.how == "noted" else stage.key
        return stage

    def _triggers(self, stage: Stage, base: str) -> tuple[Step, ...]:
        """What the base image wants done by whoever builds on it."""
        if not stage.draft.triggers:
            return ()
        steps = read_instructions(parse_dockerfile("\n".join(stage.draft.triggers), f"ONBUILD of {base}"))
        self._journal.total += len(steps)
        return steps

    async def _begin(self, plan: StagePlan, base: str) -> Stage:
        earlier = find_stage(self._plans[: plan.number], base)
        if earlier is not None and earlier.base.name:
            finished = self._stages[earlier.number]
            draft = ConfigDraft(finished.draft.document(finished.digests), self._spec.platform)
            return continue_stage(finished, draft)
        return await self._bases.begin(base, self._platform(plan.base.platform))

    def _platform(self, word: str | None) -> Platform:
        if word is None:
            return self._spec.platform
        try:
            return parse_platform(expand(word, self._arguments.declared, escape=self._dockerfile.escape))
        except UsageError as error:
            raise WordError(str(error)) from None

    def _workshop(self, plan: StagePlan) -> Workshop:
        async def origin(name: str | None) -> Origin:
            """Where COPY takes its files from."""
            if name is None:
                return Origin(self._context, None, self._spec.context)
            earlier = find_stage(self._plans[: plan.number], name)
            if earlier is None:
                return await self._bases.origin(name, self._spec.platform)
            return Origin(self._stages[earlier.number].view, self._stages[earlier.number].key)

        return Workshop(
            store=self._means.store,
            cache=self._cache,
            backend=self._open_backend,
            origin=origin,
            network=self._spec.network,
            run_timeout_sec=self._spec.run_timeout_sec,
            observer=self._means.observer,
            ca=self._means.ca,
        )

    async def _open_backend(self) -> SandboxBackend:
        if self._backend is None:
            self._backend = await self._stack.enter_async_context(self._means.open_backend())
        return self._backend

    def _finish(self, stage: Stage) -> Built:
        store, tags = self._means.store, self._spec.tags
        document = stage.draft.document(stage.digests)
        if stage.base == "host":
            if tags:
                raise UsageError(f"{tags[0]} cannot be kept: it is built on this machine's own system")
            stored, name = None, stage.key
            image = Image("host", stage.paths, "host", config=document.run_config)
        else:
            raw = write_document(document)
            found = None if tags else store.find(digest_of(raw))
            stored = found or store.put_image(raw, *tags)
            image, name = store.image(stored, tags[0] if tags else None), stored.digest.partition(":")[2]
        log = self._journal.write_log(store, self._cache, name)
        return Built(image, stored, log, self._journal.steps, self._journal.cached)
