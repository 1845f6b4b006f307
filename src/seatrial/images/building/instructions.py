"""Instructions of a Dockerfile as typed values: what each one takes, which flags it knows, which shapes are wrong.

Words keep their variables: what those stand for is known only where the instruction is carried out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from seatrial.errors import BuildError
from seatrial.tasks.dockerfile import (
    FLAGS,
    OR_DOCKER,
    Dockerfile,
    Flags,
    Heredoc,
    Instruction,
    WordError,
    parse_dockerfile,
    parse_duration,
    parse_list,
    parse_opening,
    read_flags,
    split_raw,
)

Pairs: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BuildCommand:
    """A command line for a shell, or a list of words to run as they are."""

    words: tuple[str, ...]
    form: Literal["shell", "exec"]

    def with_shell(self, shell: tuple[str, ...]) -> tuple[str, ...]:
        """What to run when `shell` takes command lines."""
        return (*shell, *self.words) if self.form == "shell" else self.words


@dataclass(frozen=True, slots=True)
class From:
    """Begins a stage."""

    image: str
    name: str | None
    platform: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """Runs a command; here-documents are in it already, but for a `script` that names its own interpreter."""

    command: BuildCommand
    script: Heredoc | None
    network: Literal["default", "none"]
    caches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """Adds files: from the build context, from another stage or image, or out of the Dockerfile itself."""

    kind: Literal["COPY", "ADD"]
    sources: tuple[str, ...]
    documents: tuple[Heredoc, ...]
    destination: str
    origin: str | None
    owner: str | None
    mode: str | None
    exclude: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arg:
    """Declares arguments, each with its default or without one."""

    declared: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """ENV and LABEL: names and values."""

    kind: Literal["ENV", "LABEL"]
    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Start:
    """CMD and ENTRYPOINT: what runs by itself; SHELL: what runs command lines."""

    kind: Literal["CMD", "ENTRYPOINT", "SHELL"]
    command: BuildCommand


@dataclass(frozen=True, slots=True)
class Setting:
    """WORKDIR, USER, STOPSIGNAL and MAINTAINER have one word; EXPOSE and VOLUME have several."""

    kind: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Healthcheck:
    """How to see whether what runs by itself is well; no command means: not at all. Times are in nanoseconds."""

    command: BuildCommand | None
    times: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class OnBuild:
    """An instruction for whoever builds on top."""

    text: str


What: TypeAlias = From | Run | Copy | Arg | Assign | Start | Setting | Healthcheck | OnBuild


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction that has been understood, with the place it stands at."""

    what: What
    line: int
    text: str


def read_steps(dockerfile: Dockerfile) -> tuple[Step, ...]:
    """Understand every instruction of a whole file. Raises BuildError with file and line."""
    steps = read_instructions(dockerfile)
    first = next((step for step in steps if not isinstance(step.what, Arg)), None)
    if first is None or not isinstance(first.what, From):
        line = first.line if first else steps[-1].line
        raise BuildError(f"{dockerfile.name}:{line}: the first instruction, but for ARG, must be FROM")
    return steps


def read_instructions(dockerfile: Dockerfile) -> tuple[Step, ...]:
    """Understand every instruction, wherever it stands. Raises BuildError with file and line."""
    return tuple(_read_step(dockerfile, instruction) for instruction in dockerfile.instructions)


def _read_step(dockerfile: Dockerfile, instruction: Instruction) -> Step:
    try:
        return Step(_understand(instruction, dockerfile.escape), instruction.line, str(instruction))
    except WordError as error:
        raise BuildError(f"{dockerfile.name}:{instruction.line}: {instruction.keyword}: {error}") from None


def _understand(instruction: Instruction, escape: str) -> What:
    keyword = instruction.keyword
    if keyword not in _READERS:
        known = ", ".join(sorted(_READERS))
        raise WordError(f"unsupported instruction; known are {known}; {OR_DOCKER}")
    flags = read_flags(instruction.flags, FLAGS.get(keyword, {}))
    if not instruction.arguments:
        raise WordError("it needs an argument")
    return _READERS[keyword](instruction, flags, escape)


def _from(instruction: Instruction, flags: Flags, _: str) -> From:
    words = instruction.arguments.split()
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        raise WordError(f"expected `IMAGE` or `IMAGE AS NAME`, found {instruction.arguments!r}")
    return From(words[0], words[2].lower() if len(words) == 3 else None, flags.one("platform"))


def _run(instruction: Instruction, flags: Flags, escape: str) -> Run:
    command = _command(instruction.arguments)
    script = None
    if instruction.heredocs:
        opening = parse_opening("".join(instruction.arguments.split(None, 1)), escape)
        first = instruction.heredocs[0]
        if opening is None:  # part of a command line: the shell gets it as it was written
            bodies = [f"\n{document.content}{document.name}" for document in instruction.heredocs]
            command = BuildCommand((instruction.arguments + "".join(bodies),), "shell")
        elif first.text.startswith("#!"):
            script = first
        else:
            command = BuildCommand((first.text,), "shell")
    return Run(command, script, flags.network(), flags.cache_mounts())


def _copy(instruction: Instruction, flags: Flags, escape: str) -> Copy:
    listed = parse_list(instruction.arguments)
    words = instruction.arguments.split() if listed is None else listed
    if len(words) < 2:
        raise WordError(f"expected at least one source and a destination, found {instruction.arguments!r}")
    *sources, destination = words
    opened = [word for word in sources if instruction.heredocs and parse_opening(word, escape)]
    if len(opened) != len(instruction.heredocs):
        raise WordError("a here-document is a source; it cannot be the destination or part of a word")
    if len(sources) > 1 and not destination.endswith("/") and destination not in (".", ".."):
        raise WordError(f"with more than one source the destination must be a directory: write {destination + '/'!r}")
    if instruction.keyword == "ADD":
        refuse_remote(sources)
    return Copy(
        kind="ADD" if instruction.keyword == "ADD" else "COPY",
        sources=tuple(word for word in sources if word not in opened),
        documents=instruction.heredocs,
        destination=destination,
        origin=flags.one("from"),
        owner=flags.one("chown"),
        mode=flags.one("chmod"),
        exclude=flags.all("exclude"),
    )


def refuse_remote(sources: Sequence[str]) -> None:
    """ADD fetches nothing here: what came would have to be fetched again to know whether it is still the same."""
    for source in sources:
        if source.startswith(("http://", "https://", "git://", "ssh://", "git@")):
            raise WordError(f"fetching {source!r} is not supported; use RUN with curl, wget or git")


def _arg(instruction: Instruction, _: Flags, escape: str) -> Arg:
    declared = [word.partition("=") for word in split_raw(instruction.arguments, escape)]
    if not all(name for name, _, _ in declared):
        raise WordError("an argument needs a name before the `=`")
    return Arg(tuple((name, value if equals else None) for name, equals, value in declared))


def _assign(instruction: Instruction, _: Flags, escape: str) -> Assign:
    kind: Literal["ENV", "LABEL"] = "ENV" if instruction.keyword == "ENV" else "LABEL"
    words = split_raw(instruction.arguments, escape)
    if "=" not in words[0]:  # the old form: one name, and the rest of the line is its value
        old = instruction.arguments.split(None, 1)
        if len(old) < 2:
            raise WordError(f"expected `NAME=VALUE`, found {instruction.arguments!r}")
        return Assign(kind, ((old[0], old[1]),))
    pairs = [word.partition("=") for word in words]
    for name, equals, value in pairs:
        if not equals or not name:
            raise WordError(f"expected `NAME=VALUE`, found {name + equals + value!r}")
    return Assign(kind, tuple((name, value) for name, _, value in pairs))


def _start(instruction: Instruction, _: Flags, __: str) -> Start:
    command = _command(instruction.arguments)
    if instruction.keyword == "SHELL":
        if command.form != "exec" or not command.words:
            raise WordError('expected a JSON list such as ["/bin/bash", "-c"]')
        return Start("SHELL", command)
    return Start("CMD" if instruction.keyword == "CMD" else "ENTRYPOINT", command)


def _command(text: str) -> BuildCommand:
    listed = parse_list(text)
    return BuildCommand((text,), "shell") if listed is None else BuildCommand(listed, "exec")


def _one_word(instruction: Instruction, _: Flags, __: str) -> Setting:
    return Setting(instruction.keyword, (instruction.arguments,))


def _several_words(instruction: Instruction, _: Flags, __: str) -> Setting:
    listed = parse_list(instruction.arguments)
    words = tuple(instruction.arguments.split())
    return Setting(instruction.keyword, words if listed is None or instruction.keyword == "EXPOSE" else listed)


def _healthcheck(instruction: Instruction, flags: Flags, _: str) -> Healthcheck:
    kind, *rest = instruction.arguments.split(None, 1)
    if kind.upper() == "NONE" and not rest:
        return Healthcheck(None)
    if kind.upper() != "CMD" or not rest:
        raise WordError(f"expected `CMD …` or `NONE`, found {instruction.arguments!r}")
    times = [(key, parse_duration(value)) for key, value in flags.single.items() if key != "retries"]
    retries = flags.one("retries")
    if retries is not None and not retries.isdigit():
        raise WordError(f"--retries takes a number, not {retries!r}")
    return Healthcheck(_command(rest[0]), (*times, *([("retries", int(retries))] if retries else [])))


def _onbuild(instruction: Instruction, _: Flags, escape: str) -> OnBuild:
    try:
        trigger = parse_dockerfile(instruction.arguments).instructions[0]
    except BuildError:
        raise WordError(f"expected an instruction behind it, found {instruction.arguments!r}") from None
    if trigger.keyword in ("ONBUILD", "FROM", "MAINTAINER"):
        raise WordError(f"{trigger.keyword} is not allowed behind it")
    if instruction.heredocs:
        raise WordError("here-documents are not supported behind it")
    _understand(trigger, escape)
    return OnBuild(instruction.arguments)


_READERS: dict[str, Callable[[Instruction, Flags, str], What]] = {
    "ADD": _copy,
    "ARG": _arg,
    "CMD": _start,
    "COPY": _copy,
    "ENTRYPOINT": _start,
    "ENV": _assign,
    "EXPOSE": _several_words,
    "FROM": _from,
    "HEALTHCHECK": _healthcheck,
    "LABEL": _assign,
    "MAINTAINER": _one_word,
    "ONBUILD": _onbuild,
    "RUN": _run,
    "SHELL": _start,
    "STOPSIGNAL": _one_word,
    "USER": _one_word,
    "VOLUME": _several_words,
    "WORKDIR": _one_word,
}
