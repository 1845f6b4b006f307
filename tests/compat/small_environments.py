"""Small environments in the manner of those that people bring along; with the models that they are tried with.

They import verifiers, not Seatrial. The rewards and metrics below are those that verifiers 0.3.1 itself gives them.
"""

# mypy: ignore-errors
# As loosely typed as what people bring along; and there is nothing to check against where verifiers is not installed.

import json
from typing import Any

import verifiers as vf
from verifiers.types import Messages, State
from verifiers.utils.async_utils import maybe_await
from verifiers.utils.data_utils import extract_boxed_answer

SUMS = [{"question": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(1, 4)]


def dataset(rows):
    """A HuggingFace Dataset for those who insist on one."""
    try:
        from datasets import Dataset  # noqa: PLC0415 - not installed everywhere
    except ImportError:
        return rows
    return Dataset.from_list(rows)


def text(message: Any) -> str:
    return message["content"] or ""


def call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def load_single():
    parser = vf.XMLParser(["think", "answer"], answer_field="answer")

    def correct(parser, completion, answer, **kwargs) -> float:
        return 1.0 if extract_boxed_answer(parser.parse_answer(completion) or "") == answer else 0.0

    rubric = vf.Rubric(funcs=[correct, parser.get_format_reward_func()], weights=[1.0, 0.5], parser=parser)
    return vf.SingleTurnEnv(dataset=dataset(SUMS), system_prompt="Add.", parser=parser, rubric=rubric)


def single_model(messages, tools):
    number = int(text(messages[-1]).split()[2].split("+")[0])
    said = {1: "\\boxed{2}", 2: "\\boxed{5}", 3: "6"}[number]
    return f"<think>hm</think>\n<answer>{said}</answer>" if number < 3 else said


class Doubting(vf.MultiTurnEnv):
    async def setup_state(self, state: State, **kwargs) -> State:
        state["doubts"] = 0
        return await super().setup_state(state, **kwargs) or state

    @vf.stop
    async def convinced(self, state: State) -> bool:
        return len(state["trajectory"]) == 3

    async def env_response(self, messages: Messages, state: State, **kwargs) -> Messages:
        state["doubts"] += 1
        assert messages[-1].role == "assistant"
        return [vf.UserMessage(content=f"Are you sure, {state['doubts']}?")]


def steadfast(completion, state) -> float:
    answers = [message.content for message in completion if message["role"] == "assistant"]
    return 1.0 / len(set(answers)) + 0.1 * state["doubts"]


def load_doubting():
    return Doubting(dataset=dataset(SUMS), rubric=vf.Rubric(funcs=[steadfast]), max_turns=10)


def doubting_model(messages, tools):
    wavers = "2+2" in text(messages[0]) and len(messages) > 3
    return "maybe" if wavers else "yes"


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def divide(a: int, b: int) -> float:
    """Divide a number by another."""
    return a / b


def last_word(completion, answer) -> float:
    return float((completion[-1].content or "").endswith(answer))


def load_tools():
    return vf.ToolEnv(dataset=dataset(SUMS), tools=[add, divide], rubric=vf.Rubric(funcs=[last_word]), max_turns=4)


def tools_model(messages, tools):
    assert {tool["function"]["name"] for tool in tools} == {"add", "divide"}
    if messages[-1]["role"] == "tool":
        return f"It is {text(messages[-1])}"
    number = int(text(messages[-1]).split()[2].split("+")[0])
    return call("divide", a=1, b=0) if number == 3 else call("add", a=number, b=number)


class Counting(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(self.count, args_to_skip=["seen"])

    async def setup_state(self, state: State, **kwargs) -> State:
        state["seen"] = []
        return await super().setup_state(state, **kwargs) or state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "seen": state["seen"]}

    async def count(self, word: str, seen: list) -> str:
        """Count how often a word was seen."""
        seen.append(word)
        return await maybe_await(lambda: str(seen.count(word)))


def counted(state, completion) -> float:
    return len(state["seen"]) / 4 + float(completion[-1]["content"] == "2")


def load_stateful():
    return Counting(dataset=dataset(SUMS[:1]), rubric=vf.Rubric(funcs=[counted]), max_turns=5)


def stateful_model(messages, tools):
    assert list(tools[0]["function"]["parameters"]["properties"]) == ["word"]
    results = [text(message) for message in messages if message["role"] == "tool"]
    return results[-1] if len(results) == 2 else call("count", word="sea")


def load_group():
    return vf.EnvGroup([load_single(), load_doubting()], env_names=["sums", "doubts"])


def group_model(messages, tools):
    return single_model(messages, tools) if messages[0]["role"] == "system" else doubting_model(messages, tools)


def best_of_group(completions, **kwargs) -> list[float]:
    lengths = [len(completion[-1]["content"]) for completion in completions]
    return [float(length == max(lengths)) for length in lengths]


def load_ranked():
    return vf.SingleTurnEnv(dataset=dataset(SUMS), rubric=vf.Rubric(funcs=[best_of_group]))


def ranked_model(messages, tools):
    return "the same for all"


class Ending(vf.MultiTurnEnv):
    """Says that it is over by a stop condition, and so hears the model once more."""

    @vf.stop
    async def is_over(self, state: State) -> bool:
        return bool(state.get("over"))

    async def env_response(self, messages: Messages, state: State, **kwargs) -> Messages:
        state["over"] = len(state["trajectory"]) == 2
        return [{"role": "user", "content": "over" if state["over"] else "go on"}]


def heard(completion, state) -> float:
    return len(state["trajectory"]) + float(text(completion[-1]) == "goodbye") / 2


def load_ending():
    return Ending(dataset=dataset(SUMS[:1]), rubric=vf.Rubric(funcs=[heard]), max_turns=10)


def ending_model(messages, tools):
    return "goodbye" if text(messages[-1]) == "over" else "hello"


class Persuaded(vf.MultiTurnEnv):
    """Asks by itself, and changes how the model is asked."""

    async def setup_state(self, state: State, **kwargs) -> State:
        nothing = {"type": "object", "properties": {}}
        state["tool_defs"] = [vf.Tool(name="look", description="Look.", parameters=nothing)]
        return await super().setup_state(state, **kwargs) or state

    async def get_model_response(self, state, prompt, client=None, model=None, tool_defs=None, sampling_args=None):
        asked = await super().get_model_response(state, prompt, client, model, tool_defs, sampling_args)
        again = [*prompt, vf.UserMessage(content=f"You said {asked.message.content}. Once more.")]
        return await super().get_model_response(
            state=state, prompt=again, client=state["client"], model=state["model"], sampling_args={"temperature": 0.0}
        )

    async def env_response(self, messages: Messages, state: State, **kwargs) -> Messages:
        return []


def insisted(completion, state) -> float:
    return float(text(completion[-1]).count("look")) + len(state["trajectory"]) / 2


def load_persuaded():
    return Persuaded(dataset=dataset(SUMS[:1]), rubric=vf.Rubric(funcs=[insisted]), max_turns=1)


def persuaded_model(messages, tools):
    names = "".join(tool["function"]["name"] for tool in tools)
    return f"{names} {text(messages[-1])}"


SINGLE = [1.5, 1.5, 0.5, 0.5, 0.1, 0.1]
DOUBTING = [1.2, 1.2, 0.7, 0.7, 1.2, 1.2]
CASES = {
    "single": (load_single, single_model, SINGLE),
    "doubting": (load_doubting, doubting_model, DOUBTING),
    "tools": (load_tools, tools_model, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]),
    "stateful": (load_stateful, stateful_model, [1.5, 1.5]),
    "group": (load_group, group_model, SINGLE + DOUBTING),
    "ranked": (load_ranked, ranked_model, [1.0] * 6),
    "ending": (load_ending, ending_model, [3.5, 3.5]),
    "persuaded": (load_persuaded, persuaded_model, [2.5, 2.5]),
}
METRICS = {
    "single": {"correct": 1.0, "format_reward_func": 1.0, "num_turns": 1.0},
    "doubting": {"steadfast": 1.2, "num_turns": 3.0},
    "tools": {"last_word": 1.0, "num_turns": 2.0, "total_tool_calls": 1.0, "add_calls": 1.0, "divide_calls": 0.0},
    "stateful": {"counted": 1.5, "num_turns": 3.0, "total_tool_calls": 2.0, "count_calls": 2.0},
    "group": {"correct": 1.0, "format_reward_func": 1.0, "num_turns": 1.0},
    "ranked": {"best_of_group": 1.0, "num_turns": 1.0},
    "ending": {"heard": 3.5, "num_turns": 3.0},
    "persuaded": {"insisted": 2.5, "num_turns": 1.0},
}
"""Those of the first rollout, with verifiers 0.3.1."""
