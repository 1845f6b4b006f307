"""What people write behind options: sizes, lengths of time, files of agents, their variables."""

import click
import pytest
from click.testing import CliRunner

from seatrial.cli.job_options import new_job_options
from seatrial.cli.main import run
from seatrial.cli.options import read_size
from tests.cli_words import new, parse


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("512M", 512), ("2G", 2048), ("1.5g", 1536), ("2GB", 2048), ("2GiB", 2048), ("1T", 2**20)]
)
def test_sizes(text, mebibytes):
    assert parse(new_job_options, "--memory", text)["memory_mb"] == mebibytes


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("1k", 1024), ("20G", 20 * 2**30), ("1.5 GiB", 3 * 2**29), ("2TB", 2**41)],
)
def test_sizes_in_bytes(text, size):
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1X", "1 2", "9" * 400])
def test_what_is_no_size(text):
    assert read_size(text) is None


def test_a_size_that_cannot_be_meant_is_refused(capsys):
    assert run(["images", "prune", "--keep", "much"]) == 2
    assert "'much' is not a size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--memory", "2"], "is not a size; write 512M or 2G"),
        (["--storage", "-1G"], "is not a size"),
        (["--memory", "0M"], "is not a size"),
        (["--agent-files", "x:/tests"], "write DIR or DIR:/WHERE"),
        (["--agent-files", ":/x"], "write DIR or DIR:/WHERE"),
        (["--agent-env", "=x"], "write NAME or NAME=VALUE"),
        (["--agent-env", "a b"], "write NAME or NAME=VALUE"),
    ],
)
def test_what_cannot_be_meant(arguments, said):
    done = CliRunner().invoke(click.command()(new_job_options(lambda **_: None)), arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_a_colon_that_is_part_of_a_name_is_no_place(tmp_path):
    (files,) = parse(new_job_options, "--agent-files", f"{tmp_path}/a:b")["agent_files"]
    assert files == {"source": f"{tmp_path}/a:b"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("45s", 45), ("30m", 1800), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172800)]
)
def test_lengths_of_time(text, seconds, tmp_path):
    assert new("-p", tmp_path, "-a", "noop", "--max-wall", text)[0].run.max_wall_sec == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "5 m", "m", "1w", "1e3", "٣m", "9" * 400])
def test_what_is_no_length_of_time(text):
    command = click.command()(new_job_options(lambda **_: None))
    done = CliRunner().invoke(command, ["--max-wall", text])
    assert done.exit_code == 2
    assert "no length of time" in done.output


@pytest.mark.parametrize("name", ["MY*", "*", "A=b", "", "a b"])
def test_variables_are_allowed_by_whole_names(name):
    command = click.command()(new_job_options(lambda **_: None))
    done = CliRunner().invoke(command, ["--allow-env", name])
    assert done.exit_code == 2
    assert "is not the name of a variable" in " ".join(done.output.split())
