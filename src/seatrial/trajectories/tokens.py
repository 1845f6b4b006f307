"""Token ids and log probabilities of an answer, from where servers of chat completions put them.

That is `logprobs.content` of the choice as OpenAI has it, with `token_ids` of the choice and `prompt_token_ids` beside
or above it as vLLM and its kin add them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN_ID = "token_id:"  # noqa: S105 - how vLLM writes a token that it was told to return as an id


@dataclass(frozen=True, slots=True)
class ToldTokens:
    """What a server told of the tokens of a prompt and its answer; what it did not tell is empty."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    logprobs: Sequence[float]


def read_tokens(completion: Mapping[str, Any]) -> ToldTokens | None:
    """The tokens of a completion and its first choice; None where nothing is told of them."""
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        return None
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    told = [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    ids = _ids(choice.get("token_ids")) or [each for token in told if (each := _id_in(token)) is not None]
    prompt = _ids(completion.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids"))
    if not told and not ids and not prompt:
        return None
    return ToldTokens(prompt, ids, _logprobs(told))


def _id_in(token: Mapping[str, Any]) -> int | None:
    text = token.get("token")
    number = text.removeprefix(_TOKEN_ID) if isinstance(text, str) and text.startswith(_TOKEN_ID) else ""
    return int(number) if number.isdecimal() and len(number) < 19 else None


def _ids(value: object) -> Sequence[int]:
    return value if isinstance(value, list) and all(type(each) is int and 0 <= each < 2**63 for each in value) else []


def _logprobs(told: Sequence[Mapping[str, Any]]) -> Sequence[float]:
    """The log probability of each token; none at all if that of one is no number, since any other would be made up."""
    values = [each.get("logprob") for each in told]
    known = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    return [float(value) for value in values if value is not None] if known else []
