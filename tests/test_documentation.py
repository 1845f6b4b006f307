"""The documentation, tried: commands print what they are said to, Python examples run, links lead somewhere."""

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from seatrial.cli.main import COMMANDS, cli
from seatrial.env.parsers import Parser
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.verifier_kit import fenced_blocks
from tests.conftest import REPOSITORY

PAGES = [
    *(REPOSITORY / f"{name}.md" for name in ("README", "AGENTS", "CONTRIBUTING", "SECURITY")),
    *sorted((REPOSITORY / "docs").glob("*.md")),
]
README_BLOCKS = [block.body for block in fenced_blocks(PAGES[0].read_text()) if block.info == "console"]
# They run this very test; that they would start it is all that can be tried from within.
RECURSIVE = {"make test", "make test-all", "make check"}


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


_SCORING = re.compile(r"^def (\w+)\((.*\bcompletions?\b.*)\).*:\n(?:[ ]{4}.*\n)+", re.MULTILINE)


@pytest.mark.parametrize("completion", [[], [{"role": "assistant", "content": None}]], ids=["no message", "no text"])
def test_reward_functions_that_are_shown_score_a_model_that_did_not_answer(completion):
    offered = {"parser": Parser(), "completion": completion, "completions": [completion], "answer": "yes"}
    tried = []
    for page in [*PAGES, *(REPOSITORY / "src/seatrial/cli/scaffolds").rglob("*.py.template")]:
        for function in _SCORING.finditer(page.read_text()):
            namespace: dict[str, Any] = {}
            exec(function[0], namespace)  # noqa: S102 - what the page shows
            names = inspect.signature(namespace[function[1]]).parameters
            if offered.keys() >= names.keys():
                namespace[function[1]](**{name: offered[name] for name in names})
                tried.append(function[1])
    assert {"right", "shortest", "correct"} <= {*tried}


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


OF_DOCKERFILES = {"--mount", "--chmod"}
_ADVISED = re.compile(r"\bseatrial ([a-z]+)\b([^`\n#|]*)")
_OPTION = re.compile(r"(?<![\w/-])(--[a-z][a-z-]+[a-z]|-[a-z](?= |$))(?![\w-]*[.*])")


def options_of(command):
    """Every option of a command, and of those below it."""
    mine = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return mine.union(*map(options_of, below))


WHOLE = click.Context(cli)
OPTIONS = {name: options_of(cli.get_command(WHOLE, name)) for name in COMMANDS}
SOURCES = sorted((REPOSITORY / "src/seatrial").rglob("*.py"))


def unknown_in(text):
    """The command lines in a text that the program would refuse, by their options."""
    for name, rest in _ADVISED.findall(text):
        ours = re.sub(r"'[^']*'", "…", rest.split(" -- ")[0])  # less what is quoted, and is another program's
        if name in OPTIONS and (strange := set(_OPTION.findall(ours)) - OPTIONS[name]):
            yield f"seatrial {name}: {', '.join(sorted(strange))}"


def lines_advised(tree):
    """The texts of a module: words that are joined to a command line count as one, and so does what is added to it."""
    for scope in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
        known = {
            each.targets[0].id: written(each.value, {})
            for each in ast.walk(scope)
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
        }
        yield from (written(each, known) for each in ast.walk(scope) if isinstance(each, WRITTEN))


WRITTEN = (ast.Constant, ast.JoinedStr, ast.Tuple, ast.Call)


def written(node, known):
    """What an expression writes as far as that can be read from it; … for the rest."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name, "…")
        case ast.FormattedValue(value=inner) | ast.Starred(value=inner):
            return written(inner, known)
        case ast.JoinedStr(values=parts):
            return "".join(written(part, known) for part in parts)
        case ast.Tuple(elts=words) | ast.List(elts=words) | ast.Call(func=ast.Attribute(attr="join"), args=words):
            start = []
        case ast.Call(func=ast.Name(id="command_line"), args=words):
            start = ["seatrial"]
        case ast.Call(func=ast.Name(id="_line"), args=words):
            start = []
        case _:
            start, words = ["…"], []
    return " ".join([*start, *(written(word, known) for word in words)])


def test_every_command_line_that_a_message_advises_is_understood():
    refused = {
        f"{path.name}: {line}"
        for path in SOURCES
        for text in lines_advised(ast.parse(path.read_text()))
        for line in unknown_in(text)
    }
    assert refused == set()


def test_every_option_that_an_error_names_exists():
    named = {
        option
        for path in SOURCES
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Raise)
        for inner in ast.walk(each)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        for option in _OPTION.findall(inner.value)
    }
    assert "--keep" in named
    assert named - OF_DOCKERFILES - set().union(*OPTIONS.values()) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_on_a_page_is_understood(page):
    assert list(unknown_in(page.read_text().replace("\\\n", " "))) == []
