"""The types that environments name in annotations, and the small tables that they make.

What verifiers has as models or typed tables is here a table whose keys are attributes too.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypedDict

from seatrial.env.chat_message import AttributeTable, ChatMessage, ToolCall

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
