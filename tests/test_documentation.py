"""The documentation, tried: commands print what they are said to, Python examples run, links lead somewhere."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.cli.main import COMMANDS
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.verifier_kit import fenced_blocks
from tests.conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
README_BLOCKS = [block.body for block in fenced_blocks(PAGES[0].read_text()) if block.info == "console"]
# They run this very test; that they would start it is all that can be tried from within.
RECURSIVE = {"make test", "make check"}


def commands(blocks):
    """Each command with the output the page shows below it."""
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def run(command):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    shell = ["sh", "-c", command]
    done = subprocess.run(
        shell, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout


# Once each, with the output where there is one.
COMMANDS_SHOWN = dict(sorted(commands(README_BLOCKS), key=lambda pair: len(pair[1])))


@pytest.mark.parametrize(("command", "shown"), COMMANDS_SHOWN.items())
def test_the_readme_s_commands_run_and_print_what_it_shows(command, shown):
    if command in RECURSIVE:
        assert "pytest" in run(f"make --dry-run {command.removeprefix('make ')}")
        return
    printed = [" ".join(line.split()) for line in run(command).splitlines()]
    for line in shown.splitlines():
        assert " ".join(line.split()) in printed


def test_the_two_first_commands_are_demo_and_test():
    assert README_BLOCKS[0].splitlines() == ["$ make demo", "$ make test"]


def why_no_limits():
    """Why the example tasks cannot have the processors and the memory they ask for; None where they can."""

    async def ask():
        async with EmbeddedBackend() as backend:
            return (await backend.probe()).missing.get("memory_mb")

    return asyncio.run(ask())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page, tmp_path):
    for block in fenced_blocks(page.read_text()):
        if block.info == "python" and "kit.run" not in block.body:
            if "examples/tasks" in block.body and "partial" not in block.body and (reason := why_no_limits()):
                pytest.skip(reason)
            subprocess.run([sys.executable, "-c", block.body], cwd=REPOSITORY, check=True, timeout=60)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_command_is_in_the_readme():
    text = PAGES[0].read_text()
    assert [name for name in COMMANDS if not re.search(rf"`seatrial {name}[ `]", text)] == []


def test_every_lint_code_is_documented():
    sources = [path.read_text() for path in (REPOSITORY / "src/seatrial/tasks").glob("*.py")]
    found = re.findall(r'(?:_problem|_fail|\.add)\(\s*"([a-z-]+)"|code="([a-z-]+)"', "\n".join(sources))
    page = (REPOSITORY / "docs/tasks.md").read_text()
    assert {code for pair in found for code in pair if code and f"`{code}`" not in page} == set()
