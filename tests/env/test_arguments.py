"""Arguments that are passed on are shown where they may be given; those that nothing takes are refused."""

import inspect
from dataclasses import fields
from typing import Any

import pytest

import seatrial as vf
from seatrial.env.arguments import constructor_arguments, passes_on
from seatrial.env.sandbox_settings import SandboxSettings
from tests.env.worlds import cli_env


def taker(first=1, second=2, *, third=3):
    return first, second, third


@passes_on(taker)
def giver(own: int, **kwargs: int) -> tuple[int, dict[str, int]]:
    return own, kwargs


given: Any = giver  # mypy knows only its own


def test_arguments_that_are_passed_on_come_behind_the_own_ones():
    shown = "(own: int, first=1, second=2, *, third=3, **kwargs: int) -> tuple[int, dict[str, int]]"
    assert str(inspect.signature(giver)) == shown


def test_they_may_be_given_by_position_or_by_name():
    assert given(7, 8, third=10, other=11) == (7, {"first": 8, "third": 10, "other": 11})
    assert given(own=7, second=8) == (7, {"second": 8})


def test_too_many_or_too_few_are_an_error():
    with pytest.raises(TypeError, match="too many positional"):
        given(1, 2, 3, 4)
    with pytest.raises(TypeError, match="own"):
        given(first=1)


@pytest.mark.parametrize("kind", [vf.CliAgentEnv, vf.SandboxEnv])
def test_what_may_be_said_about_sandboxes_is_shown_with_its_defaults(kind):
    shown = inspect.signature(kind).parameters
    assert {each.name: shown[each.name].default for each in fields(SandboxSettings)} == {
        each.name: each.default for each in fields(SandboxSettings)
    }
    assert {each.name for each in fields(SandboxSettings)} <= set(constructor_arguments(kind))


def test_settings_are_taken_out_of_the_arguments():
    arguments = {"cpu_cores": 2.0, "rubric": None, "labels": ["a"]}
    assert SandboxSettings.take_from(arguments) == SandboxSettings(cpu_cores=2.0, labels=["a"])
    assert arguments == {"rubric": None}


def test_a_setting_that_is_misspelt_is_refused_with_the_right_one():
    with pytest.raises(vf.UnknownArgumentError, match="did you mean memory_gb"):
        cli_env(memory_gbs=2)
