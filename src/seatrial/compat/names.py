"""What environments take from verifiers by name and Seatrial has nowhere else: types, messages, helpers, HarborEnv.

What verifiers has as models or typed tables is here a table whose keys are attributes too. `table` says which name of
verifiers is in which module.
"""

import asyncio
import functools
import inspect
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, TypedDict, TypeVar, cast

import tomli

from seatrial.env import harbor
from seatrial.env.client import ClientConfig
from seatrial.env.hooks import call_hook
from seatrial.env.messages import AttributeTable, ChatMessage, Messages, Response, ToolCall, as_messages, as_response
from seatrial.env.messages import Message as ChatMessageLike
from seatrial.env.parsers import extract_boxed_answer, extract_hash_answer
from seatrial.env.rollout import Recorder
from seatrial.errors import InfraError, InvalidModelResponseError, SeatrialError, UsageError
from seatrial.model.job import Layout
from seatrial.model.outcome import format_mean

Message = ChatMessage
ChatMessages = list[ChatMessage]
TextMessage = str
MessageContent = str | list[dict[str, Any]]
ContentPart = dict[str, Any]
MessageType = Literal["chat", "completion"]
ModelResponse = Any
Info = dict[str, Any]
SamplingArgs = dict[str, Any]
FinishReason = Literal["stop", "length", "tool_calls"] | None
IndividualRewardFunc = Callable[..., float | Awaitable[float]]
GroupRewardFunc = Callable[..., list[float] | Awaitable[list[float]]]
RewardFunc = IndividualRewardFunc | GroupRewardFunc
DatasetBuilder = Callable[[], Iterable[Any]]
TaskSplit = Literal["train", "eval"]
ClientType = str
EndpointApi = str
JsonPrimitive = Literal["string", "number", "integer", "array", "boolean", "object"]
StartCallback = Callable[..., None]
ProgressCallback = Callable[..., None]
LogCallback = Callable[[str], None]
ToolLike = Any

T = TypeVar("T")


class BaseRolloutInput(TypedDict):
    """What every row has."""

    prompt: list[Any]
    example_id: int


class RolloutInput(BaseRolloutInput, total=False):
    """A row that a rollout begins with."""

    answer: str
    task: str
    info: dict[str, Any] | str


class TrajectoryStepTokens(AttributeTable):
    """The tokens of a turn: prompt_ids, prompt_mask, completion_ids, completion_mask, completion_logprobs."""


class RolloutOutput(AttributeTable):
    """One rollout as it comes out."""


class GenerateOutputs(AttributeTable):
    """All rollouts of a run: outputs and metadata."""


class GenerateMetadata(AttributeTable):
    """What is said of a run as a whole."""


class RolloutScore(AttributeTable):
    """The reward and the metrics of a rollout."""


class RolloutScores(AttributeTable):
    """The rewards and the metrics of several rollouts, as lists."""


class ProcessedOutputs(AttributeTable):
    """Rollouts as lists of tokens."""


class RolloutTiming(AttributeTable):
    """How long the parts of a rollout took."""


class Usage(AttributeTable):
    """The tokens of a call: prompt_tokens, completion_tokens, reasoning_tokens, total_tokens."""


class TokenUsage(AttributeTable):
    """The tokens of a rollout: input_tokens, output_tokens."""


class VersionInfo(AttributeTable):
    """What a run was made with."""


class ErrorData(AttributeTable):
    """An error as a table."""


class Endpoint(AttributeTable):
    """Where a model is: model, url, key (a variable's name)."""


class EndpointConfig(AttributeTable):
    """Where a model is: model, base_url, api_key_var."""


class EvalConfig(AttributeTable):
    """The arguments of an evaluation."""


Endpoints = dict[str, Any]


class Tool(ToolCall):
    """A tool as chat completions describe it; `name`, `description`, `parameters` and `strict` are also reached
    directly.
    """

    flat = ("name", "description", "parameters", "strict")


# Messages.

_PLACEHOLDERS = {"audio": "[audio]", "image_url": "[image]", "input_audio": "[audio]"}


def normalize_messages(value: Any, *, field_name: str = "messages") -> Messages:
    """Messages from text or tables. Raises TypeError that names the field."""
    try:
        return as_messages(value)
    except TypeError as error:
        raise TypeError(f"{field_name}: {error}") from None


def from_raw_message(message: dict[str, Any]) -> ChatMessageLike:
    return as_messages(message)[0]


def get_messages(messages: Sequence[Any], role: str | None = None) -> Messages:
    return [each for each in as_messages(messages) if role in (None, each["role"])]


def message_role(message: Any) -> str | None:
    return message.get("role") if hasattr(message, "get") else getattr(message, "role", None)


def concat_messages(messages_list: Iterable[Messages]) -> Messages:
    return [message for messages in messages_list for message in messages]


def sanitize_tool_calls(messages: Messages) -> Messages:
    """The messages as they are: calls of tools are tables here already."""
    return messages


def messages_to_printable(messages: Any) -> Any:
    return messages if isinstance(messages, str) else [message_to_printable(each) for each in messages or []]


def message_to_printable(message: ChatMessageLike) -> ChatMessageLike:
    if not isinstance(message.get("content"), list):
        return message
    words = [_PLACEHOLDERS.get(part.get("type"), part.get("text")) for part in message["content"]]
    return as_messages({**message, "content": " ".join(word for word in words if word)})[0]


async def parse_response_messages(response: Response | Any, *_no_effect: Any) -> Messages:
    """The messages of an answer: one of the assistant's."""
    return [as_response(response).message]


async def parse_is_truncated(response: Response | Any, *_no_effect: Any) -> bool:
    return as_response(response).is_truncated


async def parse_response_tokens(
    response: Response | Any, message_type: str | int | None = None, max_seq_len: int | None = None
) -> TrajectoryStepTokens | None:
    """The tokens of an answer, cut where prompt and answer together exceed `max_seq_len`; None if no server told them.

    The limit is the second argument in newer releases; in older ones that is the type of the message.
    """
    limit = message_type if isinstance(message_type, int) else max_seq_len
    answer = None if response is None else as_response(response)
    if answer is None or answer.tokens is None:
        return None
    tokens = Recorder(max_seq_len=limit).step([], answer)["tokens"]
    told = len(answer.tokens.prompt_ids) + len(answer.tokens.completion_ids)
    return TrajectoryStepTokens(tokens, is_truncated=limit is not None and told > limit)


class TextContentPart(AttributeTable):
    """A part of a message that is text."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(type="text")
        self.update(*given, **fields)


class ImageUrlContentPart(AttributeTable):
    """A part of a message that is a picture, by its address."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(type="image_url")
        self.update(*given, **fields)


class InputAudioContentPart(AttributeTable):
    """A part of a message that is a sound."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(type="input_audio")
        self.update(*given, **fields)


# Clients. Here whatever asks a model takes what they were made from.


class Client:
    """Made from a ClientConfig or an SDK's client, it is just that: wherever a client is asked for, both will do."""

    def __new__(cls, client_or_config: Any) -> Any:
        return client_or_config


class OpenAIChatCompletionsClient(Client):
    """Chat completions of OpenAI's dialect."""


class OpenAIResponsesClient(Client):
    """A client of OpenAI's SDK; it is asked for chat completions."""


class AnthropicMessagesClient(Client):
    """A client of Anthropic's SDK, or a ClientConfig."""


def resolve_client(client_or_config: Any) -> Any:
    return client_or_config


def setup_openai_client(config: ClientConfig) -> Any:
    """A client of OpenAI's SDK for what a ClientConfig names. Raises UsageError without the SDK."""
    try:
        from openai import AsyncOpenAI  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise UsageError("setup_openai_client needs OpenAI's SDK: pip install openai") from None
    key = config.api_key or os.environ.get(config.api_key_var or "OPENAI_API_KEY")
    return AsyncOpenAI(
        base_url=config.base_url, api_key=key or "none", timeout=config.timeout, max_retries=config.max_retries
    )


setup_client = setup_openai_client


# Errors with their causes, as environments and trainers print and compare them.


def get_error_chain(
    error: BaseException | None, parent_type: type[BaseException] = BaseException
) -> list[BaseException]:
    """An error, its cause, the cause of that, and so on, as long as each is of a type."""
    chain = []
    while isinstance(error, parent_type) and error not in chain:
        chain.append(error)
        error = error.__cause__
    return chain


def get_vf_error_chain(error: BaseException) -> list[BaseException]:
    """The chain of an error as far as it is made of our errors."""
    return get_error_chain(error, SeatrialError)


class ErrorChain:
    """An error with its causes. Two are equal if the types are; `in` asks for a type."""

    def __init__(self, error: BaseException, build_error_chain: Any = get_error_chain) -> None:
        self.root_error = error
        self.chain: list[BaseException] = build_error_chain(error)

    def _names(self) -> tuple[str, ...]:
        return tuple(type(error).__name__ for error in self.chain)

    def __hash__(self) -> int:
        return hash(self._names())

    def __eq__(self, other: object) -> bool:
        return self._names() == other._names() if isinstance(other, ErrorChain) else NotImplemented

    def __contains__(self, kind: type[BaseException]) -> bool:
        return any(isinstance(error, kind) for error in self.chain)

    def __str__(self) -> str:
        return " -> ".join(self._names())

    def __repr__(self) -> str:
        return " -> ".join(map(repr, self.chain))


# Logging, and short ways to print things.

_LOGGERS = ("seatrial", "verifiers")
_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def setup_logging(level: str | None = "INFO", log_format: str | None = None, **_no_effect: Any) -> None:
    """Let Seatrial and environments log to stderr from this level on, unless something handles their records."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel((level or "WARNING").upper())
        if not logger.hasHandlers():
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter(log_format or "%(asctime)s %(levelname)s %(name)s: %(message)s"))
            logger.addHandler(handler)


@contextmanager
def log_level(level: str | int) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level.upper() if isinstance(level, str) else level)
    try:
        yield
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.setLevel(old)


def quiet_verifiers() -> AbstractContextManager[None]:
    """Log warnings and worse only, for the length of a block."""
    return log_level("WARNING")


@functools.cache
def _warn(logger: logging.Logger, msg: str) -> None:
    logger.warning("%s", msg)


def warning_once(logger: logging.Logger, msg: str) -> None:
    _warn(logger, msg)


def truncate(s: str, limit: int = 200) -> str:
    """The beginning of a text, with three dots behind it if there is more."""
    return f"{s[:limit]}..." if len(s) > limit else s


def print_time(time_s: float) -> str:
    """Seconds as people read them: 2d 3h, 5m 10s, 7s, 20ms."""
    for size, unit, part, smaller in _UNITS:
        if time_s >= size:
            whole, rest = divmod(time_s, size)
            return f"{whole:.0f}{unit}" + (f" {rest // part:.0f}{smaller}" if rest >= part else "")
    return f"{time_s:.0f}s" if time_s >= 1 else f"{time_s * 1000:.0f}ms"


def print_prompt_completions_sample(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    errors: Sequence[Any],
    rewards: Sequence[float | None],
    step: int,
    num_samples: int = 1,
) -> None:
    """Print the first rollouts of a training step: what was asked, what was said, and the reward."""
    from rich.console import Console  # noqa: PLC0415 - slow, and only for those who print
    from rich.table import Table  # noqa: PLC0415

    table = Table("Prompt", "Completion", "Reward", title=f"Step {step}", show_lines=True)
    for prompt, completion, error, reward in list(zip(prompts, completions, errors, rewards, strict=False))[
        :num_samples
    ]:
        said = _spoken(completion) + (f"\n\nerror: {error}" if error else "")
        table.add_row(_spoken(prompt), said, format_mean(reward, ".2f"))
    Console().print(table)


def _spoken(messages: Any) -> str:
    if isinstance(messages, str):
        return messages
    return "\n\n".join(f"{each['role']}: {each.get('content') or ''}" for each in messages or [])


# Variables and files.


class MissingKeyError(UsageError, ValueError):
    """Variables that an environment needs are not set; `keys` are their names."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = list(keys)
        super().__init__(f"not set: {', '.join(keys)}; export them before the program starts, as in export NAME=VALUE")


def ensure_keys(keys: Sequence[str]) -> None:
    missing = [key for key in keys if not os.environ.get(key)]
    if missing:
        raise MissingKeyError(missing)


def load_toml(file_obj: BinaryIO) -> dict[str, Any]:
    return tomli.load(file_obj)


def write_temp_file(content: str | bytes, suffix: str = "") -> str:
    """The path of a new file with this content; the caller removes it."""
    data = content.encode() if isinstance(content, str) else content
    with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
        file.write(data)
    return str(Path(file.name))


# Functions that may or may not be asynchronous, and limits that may or may not be there.


async def maybe_await(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = func(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


async def maybe_call_with_named_args(func: Callable[..., Any], **objects: Any) -> Any:
    """What a function returns that is given those of the objects that it names."""
    return await call_hook(func, **objects)


async def maybe_semaphore(limit: int | None = None) -> AbstractAsyncContextManager[Any]:
    """A semaphore of so many, or nothing to wait for without a limit."""
    return asyncio.Semaphore(limit) if limit and limit > 0 else NullAsyncContext()


async def with_sem(sem: AbstractAsyncContextManager[Any], coro: Awaitable[T]) -> T:
    """The result of a coroutine that runs within a context, such as a semaphore."""
    try:
        async with sem:
            return await coro
    finally:
        if inspect.iscoroutine(coro):  # cancelled before its turn came
            coro.close()


def maybe_retry(
    func: Callable[..., Coroutine[Any, Any, T]],
    max_retries: int = 0,
    initial: float = 1.0,
    max_wait: float = 60.0,
    error_types: tuple[type[Exception], ...] = (InfraError, InvalidModelResponseError),
) -> Callable[..., Coroutine[Any, Any, T]]:
    """The same function, called again up to `max_retries` times while it raises such an error or returns a state, or
    states, with one; pauses double from `initial` to `max_wait` seconds. What it did last is what comes of it.
    """

    async def call_again(*args: Any, **kwargs: Any) -> T:
        for number in range(max_retries):
            try:
                result = await func(*args, **kwargs)
            except error_types:
                pass
            else:
                if not any(isinstance(error, error_types) for error in _errors_in(result)):
                    return result
            await asyncio.sleep(min(initial * 2**number, max_wait))
        return await func(*args, **kwargs)

    return call_again if max_retries > 0 else func


def _errors_in(result: object) -> list[object]:
    states = result if isinstance(result, list) else [result]
    return [state.get("error") for state in states if isinstance(state, dict)]


NullAsyncContext = cast("type[AbstractAsyncContextManager[None]]", nullcontext)
"""A context in which nothing is waited for."""


# Example datasets by their short names. All are on a hub: they need the `datasets` package and a network.

BOXED_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."
THINK_BOXED_SYSTEM_PROMPT = (
    "Think step by step inside <think>...</think> tags, then give your final answer inside \\boxed{}."
)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a dataset is, and how a row of it becomes a question and an answer."""

    path: str
    config: str | None
    split: str
    question: str
    answer: Callable[[Mapping[str, Any]], str]


_SOURCES = {
    "aime2024": _Source("HuggingFaceH4/aime_2024", None, "train", "problem", lambda row: str(int(row["answer"]))),
    "amc2023": _Source("knoveleng/AMC-23", None, "train", "problem", lambda row: str(row["answer"])),
    "gsm8k": _Source("openai/gsm8k", "main", "test", "question", lambda row: extract_hash_answer(row["answer"])),
    "math": _Source(
        "chiayewken/competition_math", None, "train", "problem", lambda row: extract_boxed_answer(row["solution"])
    ),
    "math500": _Source("HuggingFaceH4/MATH-500", None, "test", "problem", lambda row: str(row["answer"])),
    "openrs": _Source("knoveleng/open-rs", None, "train", "problem", lambda row: str(row["answer"])),
}


def load_example_dataset(name: str = "gsm8k", split: str | None = None, n: int | None = None, seed: int = 0) -> Any:
    """A HuggingFace Dataset with `question` and `answer`; `n` rows of it, shuffled by the seed, if n is given.

    Raises UsageError for another name, without the package, and when the hub does not answer.
    """
    source = _SOURCES.get(name)
    if source is None:
        raise UsageError(
            f"load_example_dataset({name!r}): there are {', '.join(_SOURCES)}; load others with datasets.load_dataset"
        )
    dataset = _load(name, source)[split or source.split]
    if n is not None and n > 0:
        dataset = dataset.shuffle(seed=seed).select(range(n))
    return dataset.map(
        lambda row: {"question": row[source.question], "answer": source.answer(row)},
        remove_columns=dataset.column_names,
    )


def _load(name: str, source: _Source) -> Any:
    try:
        import datasets  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise UsageError(f"load_example_dataset({name!r}) needs datasets: pip install 'seatrial[hf]'") from None
    try:
        return datasets.load_dataset(source.path, source.config)
    except Exception as error:
        raise UsageError(
            f"load_example_dataset({name!r}) got nothing from the hub ({type(error).__name__}: {error}); it needs a "
            "network, or rows of your own: dataset=[{'question': ..., 'answer': ...}]"
        ) from error


class HarborEnv(harbor.HarborEnv):
    """Runs test.sh in `/tests`, with the solution in `/oracle`, unless `layout` says otherwise."""

    usual_layout: ClassVar[Layout] = "verifiers"
