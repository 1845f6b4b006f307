"""The options of checks: which checks are meant, and the words that a case needs to be tried again."""

import click
import pytest

from seatrial.cli.check_options import check_options, chosen_checks, words_for_cases
from seatrial.errors import UsageError


def words(*arguments: str) -> tuple[str, ...]:
    said: list[tuple[str, ...]] = []

    @click.command()
    @check_options
    @click.pass_context
    def command(context: click.Context, /, **_: object) -> None:
        said.append(words_for_cases(context))

    command.main(["tasks", *arguments], standalone_mode=False)
    return said[0]


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("--image", "host"),
        ("--backend", "docker", "--image-map", "a:1=host", "--image-map", "b=c:2"),
        ("--trust", "as-left", "--pass-threshold", "0.5"),
        ("--memory", "512M", "--timeout", "90s", "--cpus", "2.0"),
        ("--use-proxy", "--allow-env", "A", "--allow-env", "B"),
        ("--force",),
        ("--repeats", "9"),
    ],
)
def test_what_was_said_of_trials_is_said_again(given):
    again = words(*given)
    assert sorted(again) == sorted(given)
    assert words(*again) == again


def test_what_a_case_does_not_need_is_not_said_again():
    others = ("--only", "V1", "-n", "3", "--budget", "5m", "-o", "x", "--junit", "y", "--fail-on", "minor", "-q")
    assert words(*others) == ()


def test_checks_are_chosen_by_name_in_any_letters():
    chosen: list[tuple[str, ...]] = []

    @click.command()
    @check_options
    def command(only: tuple[str, ...], **_: object) -> None:
        chosen.append(only)

    command.main(["tasks", "--only", "v4, V5,", "--only", "V5"], standalone_mode=False)
    assert chosen == [("V4", "V5")]
    assert chosen_checks(("V4", "V5"), ("V5",)) == {"V4"}
    assert len(chosen_checks((), ("V5",))) == 12
    with pytest.raises(UsageError, match="leave no check"):
        chosen_checks(("V5",), ("V5",))
