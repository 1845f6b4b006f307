"""What people write behind options: sizes, files of agents, their variables."""

import click
import pytest
from click.testing import CliRunner

from seatrial.cli.job_options import new_job_options
from tests.cli.test_job_options import parse


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("512M", 512), ("2G", 2048), ("1.5g", 1536), ("2GB", 2048), ("2GiB", 2048), ("1T", 2**20)]
)
def test_sizes(text, mebibytes):
    assert parse(new_job_options, "--memory", text)["memory_mb"] == mebibytes


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
