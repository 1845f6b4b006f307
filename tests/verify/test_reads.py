"""What reads of the agent's files mean, by their names and by who speaks of them."""

import posixpath
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.sandbox.opens import Opened
from seatrial.verify.facts import find_named
from seatrial.verify.reads import (
    Expectations,
    Tools,
    by_target,
    may_be_code,
    names_by_links,
    steering,
    unexpected,
    used_files,
)

TOOLS = Tools(
    frozenset({"yaml", "json", "types", "src"}), frozenset({"jq", "python3"}), frozenset({"/app/kit", "/app/kit/deep"})
)
FRONT, BY_ITSELF, ELSEWHERE = "in front of the image's", "loaded by itself", "not in the task's folders"


def expecting(instruction: str = "", tests: str = "", files: tuple[str, ...] = ("/app/answer.txt",)) -> Expectations:
    return Expectations("/app", find_named([instruction]), tests, frozenset(files))


def why(path: str, expected: Expectations | None = None) -> str | None:
    return steering({path: frozenset([path])}, expected or expecting(), TOOLS).get(path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/app/yaml.py", FRONT),
        ("/app/yaml/__init__.py", FRONT),
        ("/app/yaml.pyc", FRONT),
        ("/app/yaml.cpython-311-x86_64-linux-gnu.so", FRONT),
        ("/app/__pycache__/yaml.cpython-311.pyc", FRONT),
        ("/app/tools/json.py", FRONT),
        ("/app/bin/jq", FRONT),
        ("/app/kit/json.py", None),
        ("/app/kit/deep/types.py", None),
        ("/app/src/__init__.py", None),
        ("/app/yaml.txt", None),
        ("/app/own.py", None),
        ("/app/env/bin/python3", None),
        ("/app/env/lib/python3.11/site-packages/yaml/__init__.py", None),
        ("/app/conftest.py", BY_ITSELF),
        ("/app/deep/down/pytest.ini", BY_ITSELF),
        ("/app/pyproject.toml", BY_ITSELF),
        ("/app/sitecustomize.py", BY_ITSELF),
        ("/app/.git/config", BY_ITSELF),
        ("/app/.git/hooks/post-index-change", BY_ITSELF),
        ("/app/.git/objects/ab/cd", None),
        ("/app/.npmrc", BY_ITSELF),
        ("/app/.cargo/config.toml", BY_ITSELF),
        ("/app/jest.config.js", BY_ITSELF),
        ("/app/node_modules/jest/jest.config.js", None),
        ("/app/package.json", None),
        ("/app/data.csv", None),
        ("/tmp/pytest.ini", BY_ITSELF),
        ("/srv/data.csv", ELSEWHERE),
        ("/home/al/work/x", ELSEWHERE),
        ("/logs/artifacts/x", None),
    ],
)
def test_a_file_steers_by_its_name_and_place(path: str, reason: str | None) -> None:
    assert why(path) == reason


@pytest.mark.parametrize(
    ("path", "instruction", "tests"),
    [
        ("/app/yaml.py", "Write /app/yaml.py.", ""),
        ("/app/yaml.py", "Write a module `yaml.py`.", ""),
        ("/app/yaml.py", "", "python3 /app/yaml.py"),
        ("/app/yaml.py", "", "cd /app; python3 ./yaml.py"),
        ("/app/tools/json.py", "", "import importlib; load('tools/json.py')"),
        ("/app/tools/json.py", "", "from tools.json import loads"),
        ("/app/tools/json.py", "", "from tools import  json"),
        ("/app/conftest.py", "Mend conftest.py.", ""),
        ("/app/pytest.ini", "", "[ -e pytest.ini ]"),
        ("/app/.github/workflows/config.yml", "", "grep on .github/workflows/*"),
        ("/srv/data.csv", "Write /srv/data.csv", ""),
        ("/srv/www/style.css", "Serve /srv/www/index.html", ""),
        ("/home/al/.ssh/authorized_keys", "", "grep k ~/.ssh/authorized_keys"),
        ("/app/.venv/pyvenv.cfg", "", "pytest"),
    ],
)
def test_what_the_task_or_its_tests_name_is_expected(path: str, instruction: str, tests: str) -> None:
    assert why(path, expecting(instruction, tests)) is None


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("/app/yaml.py", "import yaml"),
        ("/app/json/yaml.py", "import json.yaml"),
        ("/app/yaml.py", "python3 /tests/my-yaml.py"),
        ("/tmp/pytest.ini", "[ -e pytest.ini ]"),
        ("/app/package.json", "npx jest"),
        ("/app/.venv/bin/pytest", "uv run pytest"),
        ("/app/bin/jq", "jq . /app/answer.txt"),
        ("/app/.git/config", "cd /app/.git/.. && git status"),
    ],
)
def test_a_word_in_the_tests_makes_nothing_else_expected(path: str, tests: str) -> None:
    assert why(path, expecting("", tests)) is not None


def test_what_the_reference_has_in_its_place_is_expected() -> None:
    assert why("/app/conftest.py", expecting(files=("/app/conftest.py",))) is None


def test_beside_the_agents_processes_a_read_elsewhere_may_be_theirs() -> None:
    used = {path: frozenset([path]) for path in ("/srv/db/page", "/srv/db/pytest.ini")}
    assert steering(used, expecting(), TOOLS, alone=False) == {"/srv/db/pytest.ini": BY_ITSELF}


def test_a_file_is_all_that_links_call_it() -> None:
    opened = Opened(
        frozenset({"/app/x/start.py"}), {"/app/y": "/app/x", "/app/y/yaml.py": "/app/x/start.py"}, complete=True
    )
    used = used_files(opened, {"/app/x/start.py", "/app/y", "/app/y/yaml.py"})
    assert used == {"/app/x/start.py": {"/app/x/start.py", "/app/y/start.py", "/app/y/yaml.py"}}
    assert steering(used, expecting(), TOOLS) == {"/app/x/start.py": FRONT}


def test_a_link_through_a_process_is_taken_for_opened() -> None:
    opened = Opened(frozenset(), {"/app/yaml.py": "/proc/7/cwd/x"}, complete=True)
    assert used_files(opened, {"/app/yaml.py", "/app/z"}).keys() == {"/app/yaml.py"}


def test_a_compiled_module_stands_for_its_source() -> None:
    opened = Opened(frozenset({"/app/__pycache__/own.cpython-311.pyc"}), {}, complete=True)
    assert used_files(opened, {"/app/own.py"}).keys() == {"/app/own.py"}


def test_when_something_was_missed_all_may_have_been_opened() -> None:
    assert used_files(Opened(frozenset(), {}, complete=False), {"/app/a", "/app/b"}).keys() == {"/app/a", "/app/b"}


def test_only_what_nobody_speaks_of_is_listed() -> None:
    paths = ("/app/answer.txt", "/app/said.txt", "/app/out/1", "/app/other.txt", "/app/yaml.py")
    expected = expecting("Write said.txt", "", ("/app/answer.txt", "/app/out"))
    assert unexpected({path: frozenset([path]) for path in paths}, expected) == ("/app/other.txt", "/app/yaml.py")


def test_the_image_is_looked_at_only_for_what_may_be_code() -> None:
    assert not may_be_code(["/app/answer.txt", "/app/data.json"])
    assert may_be_code(["/app/answer.txt", "/app/jq"])
    assert may_be_code(["/app/x.abi3.so"])


_NAMES = st.text(string.ascii_letters + string.digits + "._- \\é", min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..")
)
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(
    changed=st.sets(_PATHS, max_size=6),
    links=st.dictionaries(_PATHS, _PATHS, max_size=6),
    tests=st.text(max_size=60),
    complete=st.booleans(),
)
@example(changed=set(), links={"/app/x": "/proc/7"}, tests="", complete=True)
def test_whatever_files_are_called_each_is_asked_for_or_listed_or_steers(
    changed: set[str], links: dict[str, str], tests: str, complete: bool
) -> None:
    used = used_files(Opened(frozenset(changed), links, complete), changed)
    expected = expecting("Write it to /app/answer.txt.", tests)
    listed, found = unexpected(used, expected), steering(used, expected, TOOLS)
    through_processes = {link for link, target in links.items() if complete and target.startswith("/proc/")}
    assert set(used) == changed | through_processes
    assert {*listed, *found} <= set(used)
    for path in set(used) - {*listed, *found}:
        assert expected.is_expected(path) or expected.is_named(path) or expected.is_published(path)


def test_a_link_that_leads_back_to_its_own_folder_gives_few_names() -> None:
    assert len(names_by_links("/app/x.js", by_target({"/app/node_modules/own": "/app"}))) == 2


def test_a_file_with_more_names_than_are_looked_at_steers() -> None:
    links = {f"/app/{number}/answer.txt": "/app/answer.txt" for number in range(81)}
    used = used_files(Opened(frozenset({"/app/answer.txt"}), links, complete=True), ["/app/answer.txt"])
    expected = Expectations("/app", files=frozenset({"/app/answer.txt"}))
    assert list(steering(used, expected, Tools())) == list(unexpected(used, expected)) == ["/app/answer.txt"]


@pytest.mark.parametrize(
    ("instruction", "path", "steers"),
    [
        ("Do it.", "/app/pyproject.toml", True),
        ("Write a library.", "/app/pyproject.toml", False),
        ("Do it.", "/app/conftest.py", True),
        ("Make `pytest` pass.", "/app/conftest.py", False),
        ("Do it.", "/app/.git/config", True),
        ("Set user.name in the git repository.", "/app/.git/config", False),
        ("Set user.name in the git repository.", "/app/.git/hooks/pre-commit", True),
        ("Do it.", "/app/.gitignore", False),
        ("Do it.", "/app/.env", False),
        ("Do it.", "/app/.config.mk", False),
        ("Do it.", "/app/.npmrc", True),
        ("Set the npm registry.", "/app/.npmrc", False),
        ("Do it.", "/app/calendar.py", True),
        ("Write a calendar module.", "/app/calendar.py", False),
    ],
)
def test_settings_and_modules_of_what_is_asked_for_are_work(instruction: str, path: str, steers: bool) -> None:
    expected = Expectations("/app", find_named([instruction]))
    found = steering({path: frozenset({path})}, expected, Tools(modules=frozenset({"calendar"})))
    assert list(found) == ([path] if steers else [])


def test_that_tests_have_packages_names_none_of_the_agent_s() -> None:
    expected = Expectations("/app", tests="open('/tests/__init__.py')")
    path = "/app/work/wave/__init__.py"
    assert path in steering({path: frozenset({path})}, expected, Tools(modules=frozenset({"wave"})))


@given(_PATHS, st.dictionaries(_PATHS, _PATHS, max_size=8))
def test_links_in_circles_come_to_an_end(path: str, links: dict[str, str]) -> None:
    names = names_by_links(path, by_target({**links, path: posixpath.join(path, "x")}))
    assert path in names
    assert len(names) <= 64 + len(links) + 1
