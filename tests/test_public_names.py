"""The public names of `seatrial`, pinned: adding one is a decision, losing one breaks somebody."""

import subprocess
import sys

import pytest

import seatrial

PUBLIC = """
AgentFiles AgentOptions AgentResult Annotation ArtifactsError AssistantMessage BrokenTask ChatMessage CliAgentEnv
ClientConfig ConfidenceMetadata Dataset DatasetNotFoundError Dimension EmptyModelResponseError EnvGroup Environment
Error ErrorSource ErrorTag EvaluationResult GatewayError HarborEnv HookError HostUnsupportedError InfraError
InvalidModelResponseError JobError JobOutcome JobSpec JobStore JudgeRubric Judgment LoadedJob MathRubric
MaybeThinkParser Messages ModelError ModelOptions MultiTurnEnv OutputSpec OverlongPromptError Parser Policy Problem
ProviderError PythonEnv RawArtifacts RawFile Response RewardError RowDataset Rubric RubricError RubricGroup
RubricResult RunOptions SandboxEnv SandboxError SeatrialError SingleTurnEnv State StatefulToolEnv StoreError
SystemMessage Task TaskFormatError ThinkParser ToolCall ToolCallError ToolEnv ToolError ToolMessage ToolParseError
TrajectoryStep TrialError TrialOptions TrialRecord UnknownArgumentError UsageError UserMessage ValidityCheck
VerifierSpec XMLParser __version__ advantage cleanup collect_artifacts collect_output compare digest_folder
extract_boxed_answer extract_hash_answer ingest lint load_dataset load_environment load_job load_task run_job
run_trial scan score_rubric stop teardown
""".split()


def test_the_names_are_these():
    assert sorted(seatrial.__all__) == PUBLIC
    assert dir(seatrial) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_each_name_can_be_used(name):
    assert getattr(seatrial, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        seatrial.no_such_name  # noqa: B018 - looking it up is the test


def test_importing_the_package_loads_nothing_heavy():
    code = "import seatrial, sys; print({'pydantic', 'jsonschema', 'rich', 'yaml'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


def test_environments_load_no_http_client_no_sdk_and_no_datasets():
    code = "import seatrial, sys; seatrial.HarborEnv; print({'aiohttp', 'openai', 'datasets'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


def test_environments_build_no_validators_before_they_are_needed():
    code = """
import seatrial

seatrial.HarborEnv
from seatrial.model.base import StrictModel

kinds = [StrictModel]
for kind in kinds:  # all of them, however far down
    kinds += kind.__subclasses__()
print([kind.__name__ for kind in kinds[1:] if kind.__pydantic_complete__])
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
