"""ATIF 1.8, the interchange format for trajectories of agents that Harbor reads: what we write of it.

Unknown keys are forbidden in it, steps are numbered from 1, and an observation names only tool calls of its own step.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from seatrial.model.base import JsonObject, NonNegative, NonNegativeInt, StrictModel

ATIF_VERSION: Literal["ATIF-v1.8"] = "ATIF-v1.8"
ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
_OF_AGENTS = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


class AtifImage(StrictModel):
    """Where an image is: a path from the trajectory's folder, or an address of the web."""

    media_type: ImageType
    path: str


class AtifPart(StrictModel):
    """A piece of a message: text, or an image."""

    type: Literal["text", "image"]
    text: str | None = None
    source: AtifImage | None = None

    @model_validator(mode="after")
    def _has_what_it_is(self) -> Self:
        if (self.text is None, self.source is None) != (self.type != "text", self.type != "image"):
            raise ValueError(f"a part of the type {self.type} has {self.type} and nothing else")
        return self


AtifContent = str | list[AtifPart]


class AtifToolCall(StrictModel):
    """A call of a tool."""

    tool_call_id: str
    function_name: str
    arguments: JsonObject
    extra: JsonObject | None = None


class AtifSubagentRef(StrictModel):
    """Names a trajectory among the `subagent_trajectories` of the whole."""

    trajectory_id: str


class AtifResult(StrictModel):
    """What a tool gave back."""

    source_call_id: str | None = None
    content: AtifContent | None = None
    subagent_trajectory_ref: list[AtifSubagentRef] | None = None
    extra: JsonObject | None = None


class AtifObservation(StrictModel):
    """What the tool calls of a step led to."""

    results: list[AtifResult]


class AtifMetrics(StrictModel):
    """What a step's model call consumed, and its tokens where the server told them."""

    prompt_tokens: NonNegativeInt | None = None
    completion_tokens: NonNegativeInt | None = None
    cached_tokens: NonNegativeInt | None = None
    cost_usd: NonNegative | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: JsonObject | None = None


class AtifStep(StrictModel):
    """Something that was said; by an agent, with its tool calls and what came of them."""

    step_id: Annotated[int, Field(ge=1)]
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | int | None = None
    message: AtifContent
    reasoning_content: str | None = None
    tool_calls: list[AtifToolCall] | None = None
    observation: AtifObservation | None = None
    metrics: AtifMetrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: NonNegativeInt | None = None
    extra: JsonObject | None = None

    @model_validator(mode="after")
    def _is_of_its_source(self) -> Self:
        if self.source != "agent" and any(getattr(self, name) is not None for name in _OF_AGENTS):
            raise ValueError(f"step {self.step_id} has what only agents have")
        if self.llm_call_count == 0 and (self.metrics or self.reasoning_content):
            raise ValueError(f"step {self.step_id} has metrics or reasoning of no call")
        called = {call.tool_call_id for call in self.tool_calls or ()}
        named = {result.source_call_id for result in self.observation.results} if self.observation else set()
        if unknown := named - called - {None}:
            raise ValueError(f"step {self.step_id} has results of {sorted(map(str, unknown))}, which it did not call")
        return self


class AtifAgent(StrictModel):
    """Who acted, and with which tools."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[JsonObject] | None = None
    extra: JsonObject | None = None


class AtifFinalMetrics(StrictModel):
    """The sums over all steps; the cost includes that of sub-agents."""

    total_prompt_tokens: NonNegativeInt | None = None
    total_completion_tokens: NonNegativeInt | None = None
    total_cached_tokens: NonNegativeInt | None = None
    total_cost_usd: NonNegative | None = None
    total_steps: NonNegativeInt | None = None
    extra: JsonObject | None = None


class AtifTrajectory(StrictModel):
    """One thread of an agent, with the threads beside it."""

    schema_version: Literal["ATIF-v1.8"] = ATIF_VERSION
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AtifAgent
    steps: Annotated[list[AtifStep], Field(min_length=1)]
    notes: str | None = None
    final_metrics: AtifFinalMetrics | None = None
    extra: JsonObject | None = None
    subagent_trajectories: "list[AtifTrajectory] | None" = None

    @model_validator(mode="after")
    def _is_numbered(self) -> Self:
        if [step.step_id for step in self.steps] != list(range(1, len(self.steps) + 1)):
            raise ValueError("steps are numbered from 1 on")
        ids = [each.trajectory_id for each in self.subagent_trajectories or ()]
        if None in ids or len(set(ids)) != len(ids):
            raise ValueError("every trajectory of a sub-agent has an id of its own")
        return self


def atif_json(trajectory: AtifTrajectory) -> bytes:
    return trajectory.model_dump_json(exclude_none=True).encode() + b"\n"
