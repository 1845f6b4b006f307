"""Lint of a task's configuration: each check finds its fault, and is silent about the nearest thing that is none."""

from pathlib import Path

import pytest

from seatrial.tasks.lint import lint
from seatrial.tasks.load import load_dataset, load_task

EXAMPLES = Path(__file__).parents[2] / "examples/tasks"
IMAGE = 'environment.docker_image = "busybox"\n'
SOLUTION = {"solution/solve.sh": "#!/bin/sh\n"}
ASKED = "Write /workspace/out.json.\n"


def problems(root, code=None, **environ):
    """The problems of a task, of one code if it is given, each as `severity file: key: message`."""
    found = lint(load_task(root), environ)
    return [f"{p.severity} {p}" for p in found if code in (None, p.code)]


def test_a_sound_task_has_no_problems(make_task):
    assert problems(make_task(toml=IMAGE, instruction=ASKED, files=SOLUTION)) == []


@pytest.mark.parametrize("task", load_dataset(EXAMPLES).tasks, ids=lambda task: task.id)
def test_the_examples_have_no_errors_and_no_warnings(task):
    assert [str(problem) for problem in lint(task, {}) if problem.severity != "note"] == []


def test_every_example_is_a_task():
    assert [task.id for task in load_dataset(EXAMPLES).broken] == []


def test_problems_come_in_the_order_of_the_checks_and_those_of_loading_first(make_task):
    root = make_task(
        toml='hue = 1\n[verifier.env]\nA = "${NOT_SET}"', instruction=" ", files={"tests/test.sh": "set -e\n"}
    )
    codes = [problem.code for problem in lint(load_task(root), {})]
    assert codes == [
        "unknown-key", "empty-instruction", "unset-variable", "no-image", "no-solution", "no-output-path",
        "no-reward-written", "no-shebang",
    ]  # fmt: skip
    assert codes == [problem.code for problem in lint(load_task(root), {})]


def test_every_problem_says_what_to_do(make_task):
    root = make_task(toml='[verifier.env]\nA = "${NOT_SET}"\nB = "x${B}"', instruction="", files={"tests/test.sh": ""})
    assert all(problem.fix for problem in lint(load_task(root), {}))


@pytest.mark.parametrize("text", ["", " \r\n\t\n", "# canary 123\n\n"], ids=["empty", "blank", "canary only"])
def test_an_instruction_that_says_nothing_is_found(make_task, text):
    assert problems(make_task(instruction=text), "empty-instruction") == [
        "warning instruction.md: the agent is told nothing"
    ]


def test_an_instruction_of_one_word_says_something(make_task):
    assert problems(make_task(instruction="Go"), "empty-instruction") == []


def test_the_empty_instruction_of_a_step_is_found(make_task):
    root = make_task(toml='[[steps]]\nname = "a"', files={"steps/a/instruction.md": ""})
    assert problems(root, "empty-instruction") == ["warning steps/a/instruction.md: the agent is told nothing"]


TABLES = {
    "environment.env": "[environment.env]\nA = {}",
    "verifier.env": "[verifier.env]\nA = {}",
    "solution.env": "[solution.env]\nA = {}",
    "verifier.environment.env": "[verifier.environment.env]\nA = {}",
    "steps[0].verifier.env": '[[steps]]\nname = "s"\nverifier.env.A = {}',
    "environment.mcp_servers.headers": '[[environment.mcp_servers]]\nname = "m"\nheaders.A = {}',
}
STEP = {"steps/s/instruction.md": "Go."}


@pytest.mark.parametrize(("table", "toml"), TABLES.items(), ids=TABLES)
def test_wild_12_a_variable_that_is_not_set_is_found_in_every_table(make_task, table, toml):
    root = make_task(toml=toml.format('"${KEY}"'), files=STEP)
    message = "the variable KEY is not set on this machine and has no default"
    assert problems(root, "unset-variable") == [f"warning task.toml: {table}.A: {message}"]
    assert problems(root, "unset-variable", KEY="") == []


@pytest.mark.parametrize("value", ["${KEY:-}", "${KEY:-x y}", "KEY", "$KEY", "${}"])
def test_a_variable_with_a_default_or_none_at_all_is_fine(make_task, value):
    assert problems(make_task(toml=f'[verifier.env]\nA = "{value}"'), "unset-variable") == []


@pytest.mark.parametrize("value", ["x-${KEY}", "${KEY}/bin", "${A}${B}"])
def test_a_template_that_is_not_the_whole_value_is_found(make_task, value):
    (found,) = problems(make_task(toml=f'[environment.env]\nA = "{value}"'), "partial-template", KEY="1", A="1", B="1")
    message = f"{value!r} is used as it stands: a template must be the whole value"
    assert found == f"warning task.toml: environment.env.A: {message}"


@pytest.mark.parametrize("value", ["${KEY}", "${KEY:-a/b}", "plain"])
def test_a_template_that_is_the_whole_value_is_fine(make_task, value):
    assert problems(make_task(toml=f'[environment.env]\nA = "{value}"'), "partial-template", KEY="1") == []


def test_a_task_without_an_image_is_noted(make_task):
    message = "neither docker_image nor environment/Dockerfile: the default image is used"
    assert problems(make_task(), "no-image") == [f"note task.toml: environment.docker_image: {message}"]


@pytest.mark.parametrize(
    ("toml", "file"),
    [(IMAGE, "tests/x"), ("", "environment/Dockerfile"), ("", "environment/docker-compose.yaml")],
    ids=["image", "Dockerfile", "compose"],
)
def test_wild_5_any_source_of_an_image_will_do(make_task, toml, file):
    assert problems(make_task(toml=toml, files={file: ""}), "no-image") == []


def test_wild_7_a_task_without_a_solution_is_noted(make_task):
    message = "without solution/solve.sh nobody can show that the task is solvable"
    assert problems(make_task(), "no-solution") == [f"note solution/solve.sh: {message}"]


@pytest.mark.parametrize("file", ["solution/solve.sh", "solution/solve.py", "steps/s/solution/solve.sh"])
def test_wild_7_any_solution_will_do(make_task, file):
    assert problems(make_task(toml='[[steps]]\nname = "s"', files={file: "", **STEP}), "no-solution") == []


def schema_task(make_task, schema):
    return make_task(toml='[output]\npath = "out.json"\nschema = "s.json"', files={"s.json": schema})


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ('{"type": "objekt"}', "$.type: 'objekt' is not valid under any of the given schemas"),
        ('{"properties": {"a": {"minimum": "0"}}}', "$.properties.a.minimum: '0' is not of type 'number'"),
        ('{"$schema": ["x"]}', ""),
    ],
    ids=["type", "deep", "draft"],
)
def test_a_json_schema_that_is_none_is_found(make_task, schema, place):
    (found,) = problems(schema_task(make_task, schema), "bad-schema")
    assert found.startswith(f"warning s.json: not a valid JSON Schema at {place}")


@pytest.mark.parametrize(
    "schema",
    ['{"type": "object", "required": ["a"]}', '{"$schema": "https://example.com/my-own-draft"}'],
    ids=["sound", "unknown draft"],
)
def test_a_sound_json_schema_is_fine(make_task, schema):
    assert problems(schema_task(make_task, schema), "bad-schema") == []


@pytest.mark.parametrize(
    ("instruction", "found"),
    [
        ("Be good.", ["no output path is declared or asked for, so no output is checked"]),
        ("Here is /workspace/a.csv", [
            "no output path is declared or asked for (a guess: /workspace/a.csv), so no output is checked"]),
        (ASKED, []),
    ],
    ids=["none", "guess", "asked"],
)  # fmt: skip
def test_an_output_path_nobody_asked_for_is_noted(make_task, instruction, found):
    expected = [f"note task.toml: output.path: {message}" for message in found]
    assert problems(make_task(instruction=instruction), "no-output-path") == expected


def test_a_declared_output_path_is_fine(make_task):
    assert problems(make_task(toml='output.path = "x"'), "no-output-path") == []


def test_each_step_needs_an_output_path(make_task):
    files = {"steps/a/instruction.md": ASKED, "steps/b/instruction.md": "Go."}
    root = make_task(toml='[[steps]]\nname = "a"\n[[steps]]\nname = "b"', files=files)
    assert len(problems(root, "no-output-path")) == 1
