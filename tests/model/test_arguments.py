"""Options that a program gives: mistakes in words, while what is read from files fails as any value does."""

from pathlib import Path

import pytest
from pydantic import ValidationError

import seatrial as vf
from seatrial.model.arguments import as_names, as_path
from seatrial.model.job import JobFile
from tests.jobs.samples import job_file

AGENT = vf.AgentOptions(name="oracle")


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (vf.AgentOptions, {}, "AgentOptions: name: Field required"),
        (
            vf.AgentOptions,
            {"name": "a", "comand": "x"},
            "unknown argument comand: did you mean command",
        ),
        (
            vf.AgentOptions,
            {"name": "a", "env": {"KEY": b"hush"}},
            r"env\.KEY: expected .*, found a value of type bytes",
        ),
        (vf.TrialOptions, {"network": "x"}, "TrialOptions: network: expected 'task' or 'none', found 'x'"),
        (vf.TrialOptions, {"pass_threshold": -1}, "pass_threshold: expected greater than or equal to 0, found -1"),
        (
            vf.ModelOptions,
            {"temperature": "hot"},
            "temperature: expected a valid number, found a value of type str",
        ),
        (vf.RunOptions, {"concurrent": 0, "retries": -1}, "RunOptions: concurrent: .*; retries: "),
        (vf.AgentFiles, {"source": ""}, "AgentFiles: source: String should have at least 1 character"),
        (
            vf.JobSpec,
            {"name": "j", "tasks": (), "agents": (AGENT,)},
            "tasks: Tuple should have at least 1 item",
        ),
        (vf.ClientConfig, {"endpoint_configs": 3}, "ClientConfig: endpoint_configs: expected a valid tuple, found 3"),
        (
            vf.ClientConfig,
            {"api_key": b"hush"},
            "api_key: expected .*, found a value of type bytes",
        ),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error(kind, values, said):
    with pytest.raises(vf.UsageError, match=said) as refused:
        kind(**values)
    assert isinstance(refused.value, ValueError | TypeError)
    assert "pydantic" not in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("kind", [vf.AgentOptions, vf.TrialOptions, vf.RunOptions, vf.ClientConfig])
def test_options_are_given_by_their_names(kind):
    with pytest.raises(vf.UsageError, match=rf"{kind.__name__} takes its values by their names: "):
        kind("x")


def test_a_copy_with_changes_is_checked_in_the_same_way():
    with pytest.raises(vf.UsageError, match="RunOptions: retries: expected"):
        vf.RunOptions().model_copy(update={"retries": -1})


def test_those_who_read_files_get_the_error_of_any_other_value():
    text = job_file(("a",)).model_dump_json()
    assert JobFile.model_validate_json(text).spec.run == vf.RunOptions()
    for broken in (text.replace('"retries":2', '"retries":-2'), text.replace('"retries":2', '"retrys":2')):
        assert broken != text
        with pytest.raises(ValidationError):
            JobFile.model_validate_json(broken)


def test_paths_and_names_are_told_from_anything_else():
    assert as_path("folder", "x") == as_path("folder", Path("x")) == Path("x")
    assert as_names("tasks", "one") == as_names("tasks", iter(["one"])) == ("one",)
    for value in (None, 3, b"x", ["x"]):
        with pytest.raises(vf.UsageError, match=r"folder is .*, expected a path"):
            as_path("folder", value)
    for names in (None, 3, {"a": 1}, [3]):
        with pytest.raises(vf.UsageError, match="tasks "):
            as_names("tasks", names)
