"""What agents did, turn by turn: each rule, each tie, and which calls are no turns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.trace import ModelCall
from seatrial.trajectories.behaviour import BEHAVIOURS, LOW, AgentTurn, turns_of
from seatrial.trajectories.threads import find_threads
from tests.trajectories.test_first_failure import NOON, calls

Tool = tuple[str, dict[str, Any]]


def call(index: int, messages: list[Any], content: Any, **request: Any) -> ModelCall:
    return ModelCall(
        index=index,
        dialect="anthropic",
        path="/v1/messages",
        started_at=NOON,
        messages=messages,
        request=request or None,
        response={"role": "assistant", "content": content},
    )


def turn(*tools: Tool, text: str = "") -> AgentTurn:
    """The one turn of an agent that says something and uses some tools."""
    used = [
        {"type": "tool_use", "id": f"use-{at}", "name": name, "input": given} for at, (name, given) in enumerate(tools)
    ]
    said = [{"type": "text", "text": text}] if text else []
    (found,) = turns_of(find_threads([call(0, [{"role": "user", "content": "mend it"}], [*said, *used])]))
    return found


def shell(command: Any) -> Tool:
    return "bash", {"command": command}


@pytest.mark.parametrize(
    ("command", "behaviour"),
    [
        ("pytest -q tests", "verification"),
        ("cd /app && timeout 60 python -m pytest", "verification"),
        ("A=1 uv run pytest", "verification"),
        ("go test ./...", "verification"),
        ("npm run test:unit", "verification"),
        ("git diff HEAD", "verification"),
        ("diff a b", "verification"),
        (["bash", "-lc", "make test"], "verification"),
        ("bash -c 'cd x; pytest'", "verification"),
        ("ls -la", "exploration"),
        ("cat a.py | head -50", "exploration"),
        ("grep -rn 'a; pytest' src 2>/dev/null", "exploration"),
        ("git log --oneline", "exploration"),
        ("frobnicate --help", "exploration"),
        ("sed -n 1,20p a.py", "exploration"),
        ("sed -i s/a/b/ a.py", "execution"),
        ("pip install requests", "execution"),
        ("cat > a.py << 'EOF'\nimport pytest\npytest\nEOF", "execution"),
        ("echo 42 > /answer", "execution"),
        ("mkdir -p build; mv a build/a", "execution"),
    ],
)
def test_a_command_is_told_by_its_programs(command, behaviour):
    found = turn(shell(command))
    assert (found.behaviour, found.confidence >= LOW) == (behaviour, True), found.rationale


@pytest.mark.parametrize("command", ["./solve --fast", "cd /app", "python3 a.py", "'no end of quotes", ["./a"], "()"])
def test_a_command_that_says_nothing_is_execution_with_low_confidence(command):
    found = turn(shell(command))
    assert found.behaviour == "execution"
    assert found.confidence < LOW


@pytest.mark.parametrize(
    ("tool", "behaviour"),
    [
        (("read_file", {"path": "/a"}), "exploration"),
        (("Grep", {"pattern": "x"}), "exploration"),
        (("webSearch", {"query": "x"}), "exploration"),
        (("Write", {"file_path": "/a", "content": "x"}), "execution"),
        (("str_replace_based_edit_tool", {"command": "view", "path": "/a"}), "exploration"),
        (("str_replace_based_edit_tool", {"command": "str_replace", "path": "/a"}), "execution"),
        (("TodoWrite", {"todos": []}), "deliberation"),
        (("update_plan", {"plan": []}), "deliberation"),
        (("run_tests", {}), "verification"),
        (("submit", {}), "execution"),
    ],
)
def test_a_tool_is_told_by_its_name(tool, behaviour):
    assert turn(tool).behaviour == behaviour


@pytest.mark.parametrize(
    ("text", "behaviour"),
    [
        ("The result is as expected, I confirmed it.", "verification"),
        ("Maybe the file is elsewhere?", "exploration"),
        ("My plan: first the parser, then the tests.", "deliberation"),
        ("Done.", "execution"),
        ("Maybe. Then.", "exploration"),  # as often: exploration goes before deliberation
        ("I check: is it so?", "verification"),  # as often: verification goes before all
        ("Maybe first this, then that.", "deliberation"),  # more often
    ],
)
def test_words_alone_are_told_by_cues_and_never_with_confidence(text, behaviour):
    found = turn(text=text)
    assert found.behaviour == behaviour
    assert found.confidence < LOW


def test_a_command_in_words_counts_as_one():
    found = turn(text="Let me look first.\n```bash\nls -la\n```\n")
    assert (found.behaviour, found.confidence) == ("exploration", 0.9)


def test_the_most_frequent_action_of_a_turn_counts():
    found = turn(shell("ls"), shell("pwd"), shell("pytest"))
    assert (found.behaviour, found.confidence) == ("exploration", 0.6)
    assert found.rationale == "runs ls, runs pwd (2 of 3 actions)"


READS: Tool = ("read", {"path": "/a"})
WRITES: Tool = ("write", {"path": "/b"})
TESTS: Tool = shell("pytest")
PLANS: Tool = ("think", {})


@pytest.mark.parametrize(
    ("tools", "behaviour"),
    [
        ([WRITES, PLANS, READS, TESTS], "verification"),
        ([WRITES, PLANS, READS], "exploration"),
        ([WRITES, PLANS], "deliberation"),
        ([WRITES], "execution"),
    ],
)
def test_of_equally_frequent_actions_the_first_in_order_counts(tools, behaviour):
    assert turn(*tools).behaviour == behaviour


@pytest.mark.parametrize("again", [("read", {"path": "/a/b.py"}), shell("cat /a/b.py")])
@pytest.mark.parametrize("first", [("edit", {"path": "/a/b.py"}), shell("echo 1 > /a/b.py")])
def test_to_read_again_what_one_wrote_is_verification(first, again):
    uses = [(*again, ""), (*first, ""), (*again, "")]
    found = [each.behaviour for each in turns_of(find_threads(calls(uses)))]
    assert found[:3] == ["exploration", "execution", "verification"]


def test_titles_warm_ups_and_calls_without_an_answer_are_no_turns():
    begun: list[Any] = [{"role": "user", "content": "mend it"}]
    tools = [{"name": "bash", "input_schema": {}}]
    used = {"type": "tool_use", "id": "u", "name": "bash", "input": {"command": "ls"}}
    answer = {"role": "assistant", "content": [used]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u", "content": "a"}]}
    recorded = [
        call(0, [{"role": "user", "content": "quota"}], [{"type": "text", "text": "I"}], max_tokens=1),
        call(1, [{"role": "user", "content": "Write a title for: mend it"}], [{"type": "text", "text": "Mending"}]),
        call(2, begun, [used], tools=tools),
        call(3, [*begun, answer, result], [], tools=tools).model_copy(update={"response": None, "status": 503}),
        call(4, [*begun, answer, result], [{"type": "text", "text": "Done."}], tools=tools),
    ]
    assert [(each.thread, each.call) for each in turns_of(find_threads(recorded))] == [("main", 2), ("main", 4)]


def test_a_warm_up_call_of_the_main_thread_is_no_turn():
    begun: list[Any] = [{"role": "user", "content": "mend it"}]
    (found,) = turns_of(
        find_threads(
            [
                call(0, begun, "o", max_tokens=1),
                call(1, [*begun, {"role": "user", "content": "now"}], "ok", max_tokens=9),
            ]
        )
    )
    assert found.call == 1


@given(st.text(max_size=200))
def test_every_command_has_one_of_the_four_behaviours(command):
    found = turn(shell(command or "x"))
    assert found.behaviour in BEHAVIOURS
    assert 0.0 < found.confidence <= 1.0


@pytest.mark.parametrize(
    "hostile", ["<<A\n" * 1_000, "\n" * 5_000, "'" * 4_000, "bash -c '" * 400, ";" * 9_000, "(" * 4_000]
)
def test_a_hostile_command_is_read_within_bounds(hostile):
    assert turn(*[shell(hostile)] * 3).behaviour in BEHAVIOURS


def test_sub_agents_are_threads_of_their_own():
    tools = [{"name": "bash", "input_schema": {}}]
    prompt = "Find out where the parser of the program is."
    started = {"type": "tool_use", "id": "t", "name": "task", "input": {"prompt": prompt}}
    looks = {"type": "tool_use", "id": "u", "name": "bash", "input": {"command": "ls"}}
    begun: list[Any] = [{"role": "user", "content": "mend it"}]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "in parser.py"}]}
    after = [*begun, {"role": "assistant", "content": [started]}, result]
    recorded = [
        call(0, begun, [started], tools=tools),
        call(1, [{"role": "user", "content": prompt}], [looks], tools=tools),
        call(2, after, [{"type": "text", "text": "Done."}], tools=tools),
    ]
    found = [(each.thread, each.call, each.behaviour) for each in turns_of(find_threads(recorded))]
    assert found == [("main", 0, "execution"), ("main", 2, "execution"), ("sub-agent 1", 1, "exploration")]
