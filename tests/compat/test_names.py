import asyncio
import itertools
import logging
import sys
import types
from pathlib import Path

import pytest

from seatrial.compat.names import (
    Endpoint,
    ErrorChain,
    HarborEnv,
    ImageUrlContentPart,
    InputAudioContentPart,
    MissingKeyError,
    OpenAIChatCompletionsClient,
    TextContentPart,
    Tool,
    concat_messages,
    ensure_keys,
    from_raw_message,
    get_error_chain,
    get_messages,
    get_vf_error_chain,
    load_example_dataset,
    load_toml,
    log_level,
    maybe_await,
    maybe_call_with_named_args,
    maybe_retry,
    maybe_semaphore,
    message_role,
    messages_to_printable,
    normalize_messages,
    parse_is_truncated,
    parse_response_messages,
    parse_response_tokens,
    print_prompt_completions_sample,
    print_time,
    quiet_verifiers,
    resolve_client,
    setup_openai_client,
    truncate,
    warning_once,
    with_sem,
    write_temp_file,
)
from seatrial.env.client import ClientConfig
from seatrial.env.messages import UserMessage
from seatrial.errors import InfraError, ModelError, SandboxError, UsageError
from tests.conftest import MakeTask

FUNCTION = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}


def test_a_tool_is_what_chat_completions_take():
    tool = Tool(**FUNCTION, strict=True)
    assert tool == {"type": "function", "function": {**FUNCTION, "strict": True}}
    assert (tool.name, tool.description, tool["strict"]) == ("add", "Adds.", True)
    assert tool == Tool({"type": "function", "function": {**FUNCTION, "strict": True}})


def test_small_tables_have_attributes():
    endpoint = Endpoint(model="m", url="u")
    assert (endpoint.model, endpoint["url"]) == ("m", "u")


USER = {"role": "user", "content": "u"}
ASSISTANT = {"role": "assistant", "content": "a"}


def test_messages_are_made_of_tables_and_text():
    assert normalize_messages("u") == [USER]
    assert isinstance(from_raw_message(USER), UserMessage)
    with pytest.raises(TypeError, match="few_shot: a message is a table with a role"):
        normalize_messages([{"content": "no role"}], field_name="few_shot")


def test_messages_of_one_role_are_found():
    assert get_messages([USER, ASSISTANT], role="assistant") == [ASSISTANT]
    assert get_messages([USER, ASSISTANT]) == concat_messages([[USER], [ASSISTANT]])
    assert (message_role(UserMessage(content="")), message_role(object())) == ("user", None)


def test_pictures_and_sounds_are_words_in_print():
    parts = [
        TextContentPart(text="see"),
        ImageUrlContentPart(image_url={"url": "data:..."}),
        InputAudioContentPart(input_audio={"data": "", "format": "wav"}),
    ]
    assert messages_to_printable([UserMessage(content=parts), USER]) == [
        {"role": "user", "content": "see [image] [audio]"},
        USER,
    ]


def test_an_answer_is_taken_apart():
    answer = {"choices": [{"message": ASSISTANT, "finish_reason": "length"}]}
    assert asyncio.run(parse_response_messages(answer, "chat")) == [ASSISTANT]
    assert asyncio.run(parse_is_truncated(answer)) is True


CHOICE = {
    "message": ASSISTANT,
    "finish_reason": "stop",
    "token_ids": [4, 5, 6],
    "logprobs": {"content": [{"token": "x", "logprob": -0.5}, {"token": "y", "logprob": -1.0}, {"logprob": -2.0}]},
}
TOKENS = {
    "prompt_ids": [1, 2],
    "prompt_mask": [0, 0],
    "completion_ids": [4, 5, 6],
    "completion_mask": [1, 1, 1],
    "completion_logprobs": [-0.5, -1.0, -2.0],
    "overlong_prompt": False,
    "is_truncated": False,
}
ONE_LESS = {
    **TOKENS,
    "completion_ids": [4, 5],
    "completion_mask": [1, 1],
    "completion_logprobs": [-0.5, -1.0],
    "is_truncated": True,
}
NONE_LEFT: dict[str, list[int]] = {"completion_ids": [], "completion_mask": [], "completion_logprobs": []}
TOO_LONG = {**TOKENS, "prompt_ids": [1], "prompt_mask": [0], **NONE_LEFT, "overlong_prompt": True, "is_truncated": True}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [((), TOKENS), ((5,), TOKENS), ((4,), ONE_LESS), (("chat", 4), ONE_LESS), (("chat",), TOKENS), ((1,), TOO_LONG)],
)
def test_the_tokens_of_an_answer_are_cut_at_the_limit_by_either_order_of_arguments(limits, expected):
    answer = {"prompt_token_ids": [1, 2], "choices": [CHOICE]}
    assert asyncio.run(parse_response_tokens(answer, *limits)) == expected


def test_an_answer_without_tokens_has_none():
    for answer in (None, "text", {"choices": [{"message": ASSISTANT, "finish_reason": "length"}]}):
        assert asyncio.run(parse_response_tokens(answer, max_seq_len=9)) is None


def test_a_client_is_what_it_was_made_from():
    given = object()
    assert OpenAIChatCompletionsClient(given) is resolve_client(given) is given


def test_an_sdk_s_client_is_made_from_a_config(monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OWN_MODEL_KEY", "secret")
    client = setup_openai_client(ClientConfig(api_base_url="http://127.0.0.1:1/v1", api_key_var="OWN_MODEL_KEY"))
    assert (str(client.base_url), client.api_key) == ("http://127.0.0.1:1/v1/", "secret")


def chained(*errors):
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


def test_a_chain_is_an_error_with_its_causes():
    error = chained(SandboxError("gone"), ModelError("late"), OSError("disk"))
    assert [type(each) for each in get_error_chain(error)] == [SandboxError, ModelError, OSError]
    assert [type(each) for each in get_vf_error_chain(error)] == [SandboxError, ModelError]
    chain = ErrorChain(error)
    assert (str(chain), InfraError in chain, KeyError in chain) == (
        "SandboxError -> ModelError -> OSError",
        True,
        False,
    )
    assert "disk" in repr(chain)


def test_a_circle_of_causes_has_an_end():
    first, second = SandboxError("a"), ModelError("b")
    first.__cause__, second.__cause__ = second, first
    assert str(ErrorChain(first)) == "SandboxError -> ModelError"


def test_chains_are_alike_when_their_types_are():
    first, second = (ErrorChain(chained(SandboxError(text), OSError(text))) for text in ("a", "b"))
    assert first == second
    assert len({first, second, ErrorChain(SandboxError("a"))}) == 2
    assert first != "SandboxError -> OSError"


def test_the_level_holds_for_a_block():
    loggers = [logging.getLogger(name) for name in ("seatrial", "verifiers")]
    before = [logger.level for logger in loggers]
    with log_level("debug"):
        assert [logger.level for logger in loggers] == [logging.DEBUG] * 2
        with quiet_verifiers():
            assert loggers[1].level == logging.WARNING
    assert [logger.level for logger in loggers] == before


def test_a_warning_is_given_once(caplog):
    for message in ("a of this test", "a of this test", "b of this test"):
        warning_once(logging.getLogger("verifiers.own"), message)
    assert [record.message for record in caplog.records] == ["a of this test", "b of this test"]


@pytest.mark.parametrize(
    ("seconds", "read"), [(0.02, "20ms"), (7, "7s"), (60, "1m"), (310, "5m 10s"), (3600, "1h"), (183600, "2d 3h")]
)
def test_times_are_read_by_people(seconds, read):
    assert print_time(seconds) == read


def test_long_texts_are_cut():
    assert (truncate("abc", 3), truncate("abcd", 3)) == ("abc", "abc...")


def test_a_sample_shows_what_was_said(capsys):
    prompts = [[{"role": "user", "content": "2+2?"}], [{"role": "user", "content": "unseen"}]]
    completions = [[{"role": "assistant", "content": "four"}], "unseen"]
    print_prompt_completions_sample(prompts, completions, [None, "lost"], [0.5, None], step=7)
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("2+2?", "four", "0.50", "Step 7"))
    assert "unseen" not in shown


def test_variables_that_are_missing_are_all_named(monkeypatch):
    monkeypatch.setenv("OWN_KEY_THERE", "x")
    monkeypatch.setenv("OWN_KEY_EMPTY", "")
    monkeypatch.delenv("OWN_KEY_MISSING", raising=False)
    ensure_keys(["OWN_KEY_THERE"])
    with pytest.raises(MissingKeyError, match="OWN_KEY_EMPTY, OWN_KEY_MISSING") as raised:
        ensure_keys(["OWN_KEY_THERE", "OWN_KEY_EMPTY", "OWN_KEY_MISSING"])
    assert raised.value.keys == ["OWN_KEY_EMPTY", "OWN_KEY_MISSING"]
    assert isinstance(raised.value, ValueError)


def test_a_temporary_file_has_its_content_and_ending():
    path = Path(write_temp_file("x = 1", ".toml"))
    with path.open("rb") as file:
        assert load_toml(file) == {"x": 1}
    path.unlink()
    assert path.suffix == ".toml"


async def later(a, b=0):
    return a + b


def test_functions_of_both_kinds_are_called_alike():
    assert asyncio.run(maybe_await(later, 1, b=2)) == 3
    assert asyncio.run(maybe_await(max, 1, 2)) == 2


def test_a_function_gets_the_objects_that_it_names():
    assert asyncio.run(maybe_call_with_named_args(later, a=1, b=2, c=3)) == 3
    assert asyncio.run(maybe_call_with_named_args(lambda **all_of_them: sorted(all_of_them), a=1, c=3)) == ["a", "c"]


def test_a_semaphore_is_there_if_there_is_a_limit():
    async def both():
        limited, free = await maybe_semaphore(1), await maybe_semaphore(-1)
        assert await with_sem(limited, later(1)) == await with_sem(free, later(1)) == 1
        return isinstance(limited, asyncio.Semaphore), isinstance(free, asyncio.Semaphore)

    assert asyncio.run(both()) == (True, False)


@pytest.mark.parametrize("failures", [[SandboxError("x")] * 2, [{"error": SandboxError("x")}] * 2])
def test_what_fails_is_called_again_so_often(failures):
    ends = [*failures, {"error": None}]

    async def rollout():
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    assert asyncio.run(maybe_retry(rollout, max_retries=2, initial=0)()) == {"error": None}
    assert ends == []


def test_what_fails_to_the_last_is_as_it_was_last():
    async def rollout():
        return [{"error": SandboxError("always")}]

    assert str(asyncio.run(maybe_retry(rollout, max_retries=1, initial=0)())[0]["error"]) == "always"
    assert maybe_retry(rollout) is rollout


class Rows(list[dict[str, str]]):
    """What of a HuggingFace Dataset is used."""

    column_names = ("question", "answer")

    def shuffle(self, seed):
        return Rows(sorted(self, key=lambda row: (row["answer"], seed), reverse=True))

    def select(self, indices):
        return Rows(self[at] for at in indices)

    def map(self, function, remove_columns):
        assert remove_columns == self.column_names
        return Rows(function(row) for row in self)


def hub(monkeypatch, load):
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load))


def test_a_row_becomes_a_question_and_an_answer(monkeypatch):
    rows = Rows({"question": f"{n}+0?", "answer": f"as it is #### {n}"} for n in range(3))
    hub(monkeypatch, lambda path, config: {"test": rows, "train": Rows()} if path == "openai/gsm8k" else None)
    assert load_example_dataset("gsm8k")[1] == {"question": "1+0?", "answer": "1"}
    assert load_example_dataset("gsm8k", n=1) == [{"question": "2+0?", "answer": "2"}]
    assert load_example_dataset("gsm8k", split="train") == []


def test_a_name_that_there_is_not_is_told_those_that_there_are():
    with pytest.raises(UsageError, match="there are aime2024, amc2023, gsm8k"):
        load_example_dataset("gsm9k")


def test_a_hub_that_does_not_answer_is_no_riddle(monkeypatch):
    def unreachable(path, config):
        raise ConnectionError("no route")

    hub(monkeypatch, unreachable)
    with pytest.raises(UsageError, match=r"got nothing from the hub \(ConnectionError: no route\).* rows of your own"):
        load_example_dataset("math")


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[hf\]'"):
        load_example_dataset()


@pytest.mark.parametrize(("given", "layout"), [({}, "verifiers"), ({"layout": "harbor"}, "harbor")])
def test_tests_run_where_verifiers_ran_them_unless_somebody_says_otherwise(make_task: MakeTask, given, layout) -> None:
    environment = HarborEnv("true", make_task("task").parent, **given)
    assert environment.trial_options.layout == layout
