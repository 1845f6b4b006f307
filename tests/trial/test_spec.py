"""The version of an agent: asked once for each image, whatever the program prints with it."""

import asyncio

import pytest

from seatrial.agents.api import AgentLaunch
from seatrial.errors import AgentUnfitError
from seatrial.sandbox.api import ExecResult, ExecSpec, Image, SandboxSpec, open_sandbox
from seatrial.testing.fake import FakeBackend, answer
from seatrial.trial.spec import KnownVersions, version_command

COMMAND = version_command(AgentLaunch(("agent",), version=("agent", "--version")), "somebody")


def ask(say, images=("a",), titles=("x",)) -> list[str]:
    async def scenario() -> list[str]:
        known = KnownVersions()
        async with FakeBackend(say) as backend, open_sandbox(backend, SandboxSpec(Image("a"))) as sandbox:
            waiting = [known.ask(title, Image(image), sandbox, COMMAND) for image in images for title in titles]
            return await asyncio.gather(*waiting)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.325 (Claude Code)", "2.1.325"),
        ("codex-cli 0.166.0\n", "0.166.0"),
        ("This is mini-swe-agent version 2.4.6.\nMore.", "2.4.6"),
        ("1.0.0-rc.1+build5", "1.0.0-rc.1+build5"),
        ("no number at all", "no number at all"),
        ("", ""),
        ("\x1b[31m7.1\x07", "7.1"),
        ("\x1b]0;odd\x07", "]0;odd"),
        ("1.0." + "a" * 2**20, "1.0." + "a" * 76),
        ("1" * 2**20, "1" * 80),
    ],
    ids=lambda said: said[:30],
)
def test_the_first_that_looks_like_a_version_is_it(said, version):
    assert ask(lambda *_: answer(said)) == [version]


def test_one_that_is_told_on_standard_error_counts_too():
    assert ask(lambda *_: answer(stderr="0.73.1\n")) == ["0.73.1"]


def test_trials_that_start_together_ask_once_for_each_agent_and_image():
    asked: list[ExecSpec] = []

    def say(spec: ExecSpec, *_: object) -> ExecResult:
        asked.append(spec)
        return answer("1.0")

    assert ask(say, images=("a", "a", "b"), titles=("x", "y")) == ["1.0"] * 6
    assert len(asked) == 4
    assert {(spec.argv, spec.user) for spec in asked} == {(("agent", "--version"), "somebody")}


def test_one_that_fails_is_asked_again_in_the_next_trial():
    answers = [answer(exit_code=1, stderr="boom"), answer("1.0")]

    async def scenario() -> str:
        known = KnownVersions()
        async with (
            FakeBackend(lambda *_: answers.pop(0)) as backend,
            open_sandbox(backend, SandboxSpec(Image("a"))) as sandbox,
        ):
            with pytest.raises(AgentUnfitError, match="it ended with 1 and said: boom"):
                await known.ask("x", Image("a"), sandbox, COMMAND)
            return await known.ask("x", Image("a"), sandbox, COMMAND)

    assert asyncio.run(scenario()) == "1.0"


@pytest.mark.parametrize(
    ("exit_code", "stderr", "reason"),
    [
        (None, "", "did not answer within 120 s"),
        (1, "/lib/libc.so.6: version `GLIBC_2.38' not found", "C library is too old"),
        (126, "sh: pi: Exec format error", "another architecture than this machine"),
        (126, "", "another C library or architecture"),
        (127, "", "no layer or set-up brought it"),
        (-11, "", "It crashed"),
        (139, "", "It crashed"),
        (2, "no such option", "Its program is there and fails"),
    ],
)
def test_why_it_does_not_start_is_said_as_far_as_that_can_be_told(exit_code, stderr, reason):
    with pytest.raises(AgentUnfitError, match=reason):
        ask(lambda *_: answer(exit_code=exit_code, stderr=stderr))


def test_what_a_terminal_would_obey_is_not_repeated():
    with pytest.raises(AgentUnfitError, match=r"and said: \[31mno\n \[2J\. "):
        ask(lambda *_: answer(exit_code=1, stderr="\x1b[31mno\n\x1b[2J"))
