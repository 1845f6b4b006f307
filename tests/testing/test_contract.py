"""The contract must fail where a backend breaks it: here are some that do, each in one way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from seatrial.sandbox.api import ExecResult, ExecSpec, Sandbox, SandboxBackend, SandboxSpec
from seatrial.sandbox.local import LocalBackend, LocalSandbox
from seatrial.testing.contract import SandboxContract

pytestmark = pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")

Lie = Callable[[ExecResult], ExecResult]


class LyingSandbox:
    """A good sandbox that reports something else than what happened, and does not destroy itself."""

    def __init__(self, good: LocalSandbox, lie: Lie) -> None:
        self._good = good
        self._lie = lie

    def __getattr__(self, name: str) -> Any:
        return getattr(self._good, name)

    async def exec(self, spec: ExecSpec) -> ExecResult:
        return self._lie(await self._good.exec(spec))

    async def destroy(self) -> None:
        """Nothing: the backend does it later."""


class LyingBackend:
    def __init__(self, lie: Lie) -> None:
        self._good = LocalBackend()
        self._lie = lie

    def __getattr__(self, name: str) -> Any:
        return getattr(self._good, name)

    async def __aenter__(self) -> "LyingBackend":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._good.__aexit__(*error)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return cast(Sandbox, LyingSandbox(await self._good.create(spec), self._lie))


class Contract(SandboxContract):
    def __init__(self, lie: Lie) -> None:
        self._lie = lie

    def make_backend(self) -> SandboxBackend:
        return cast(SandboxBackend, LyingBackend(self._lie))


def truth(result: ExecResult) -> ExecResult:
    return result


LIES: dict[str, Lie] = {
    "test_output_and_exit_code": lambda result: replace(result, exit_code=1),
    "test_ended_by_a_signal": lambda result: replace(result, exit_code=128 + abs(result.exit_code or 0)),
    "test_standard_input": lambda result: replace(result, stdout=result.stdout[:1000]),
    "test_arguments_are_not_interpreted": lambda result: replace(result, stdout=result.stdout.strip(b"|")),
    "test_output_beyond_the_limit_is_dropped_and_said_so": lambda result: replace(result, truncated=False),
    "test_output_as_long_as_the_limit_is_whole": lambda result: replace(result, truncated=True),
    "test_a_command_that_is_not_there": lambda result: replace(result, exit_code=1),
    "test_a_child_left_behind_lives_on_between_commands": lambda result: replace(result, stdout=b""),
}


@pytest.mark.parametrize("test", LIES)
def test_a_lie_is_noticed(test):
    getattr(Contract(truth), test)()
    with pytest.raises(AssertionError):
        getattr(Contract(LIES[test]), test)()


def test_a_variable_of_the_host_is_noticed():
    contract = Contract(truth)
    contract.test_the_environment_is_what_was_asked_for()
    contract.ambient_env = frozenset({"PATH"})  # as if HOME and the others had leaked
    with pytest.raises(AssertionError):
        contract.test_the_environment_is_what_was_asked_for()


def test_a_process_left_behind_is_noticed():
    with pytest.raises(AssertionError, match=r"\[\d+(, \d+)+\] == \[\]"):
        Contract(truth).test_nothing_runs_on_after_destroying()


def test_a_sandbox_that_still_works_is_noticed():
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        Contract(truth).test_a_destroyed_sandbox_refuses_everything()


def test_what_is_missing_is_skipped_with_the_reason_of_the_backend():
    with pytest.raises(pytest.skip.Exception, match="local backend has no guarded_phases: plain processes all see"):
        Contract(truth).test_the_verifier_sees_the_agent()
