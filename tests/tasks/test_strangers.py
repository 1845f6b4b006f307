"""Whatever bytes strangers put into a task folder, reading it answers with data: no exception, nothing unstorable."""

import posixpath
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.model.base import to_json
from seatrial.model.loaded_task import BrokenTask, Task
from seatrial.model.task import TaskConfig
from seatrial.tasks.instruction import named_paths, strip_canary
from seatrial.tasks.lint import lint
from seatrial.tasks.load import read_folder
from seatrial.tasks.outline import TaskOutline
from seatrial.tasks.toml import read_config

SECTIONS = st.sampled_from(
    "agent verifier environment task metadata steps artifacts output solution version schema_version source".split()
)
KEYS = st.sampled_from(
    """env name authors timeout_sec timeout memory memory_mb network network_mode allowed_hosts cpus user version schema
    path collect environment healthcheck mcp_servers headers command tpu os min_reward max_bytes x 'é'""".split()
)


def quoted(text):
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


# TOML as text, because even hypothesis cannot print the integer that HUGE stands for.
SCALARS = st.one_of(
    st.sampled_from(["true", "0", "-1", "2.5", "nan", "-inf", "1e400", "2024-05-06", "07:08:09", "0xHUGE"]),
    st.sampled_from(["'2G'", "'public'", "'${A}'", "'../x'", "'/a/b'", '"a\\u0000b"', "'LONG'"]),
    st.integers(-(2**70), 2**70).map(str),
    st.text(max_size=8).map(quoted),
)


def written_out(toml):
    return toml.replace("HUGE", "f" * 4000).replace("LONG", "9" * 400 + "G")


def as_list(items):
    return f"[{', '.join(items)}]"


def as_table(items):
    return "{" + ", ".join(f"{key} = {value}" for key, value in items.items()) + "}"


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3).map(as_list) | st.dictionaries(KEYS, inner, max_size=5).map(as_table),
    max_leaves=20,
)
TABLES = st.dictionaries(KEYS, VALUES, min_size=1, max_size=5).map(as_table)
DOCUMENTS = st.dictionaries(SECTIONS, VALUES | TABLES | st.lists(TABLES, max_size=2).map(as_list), max_size=6).map(
    lambda items: "\n".join(f"{key} = {value}" for key, value in items.items())
)

WORDS = st.sampled_from(["\n", "\n\n", "\r\n", "\t", "\u2028", "\x0c"]) | st.sampled_from(
    """Write write to the Read from not don't must contain output: : . ; - 1. ` ``` ```json ~~~ $ { } " ** _ , é 任
    /app /app/ / .. /workspace/a.json /workspace/.. /app/../x /app/x/* /app/<a> /app/{b} app/x //app/y
    <!--canary--> in into that writes edit except
    x.json x.py ./x.json ../x.json ./../x.json a/../../x.json ./app/x.json""".split()
)
SENTENCES = st.lists(WORDS, max_size=40).map("".join) | st.lists(WORDS, max_size=40).map(" ".join)
INSTRUCTIONS = st.text() | SENTENCES


@given(st.text())
@settings(max_examples=100)
def test_no_text_makes_the_config_reader_fail(text):
    config, report = read_config(text)
    assert (config is None) == ([problem.code for problem in report.problems] == ["bad-toml"])


@given(DOCUMENTS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_no_toml_of_any_shape_makes_the_config_reader_fail(text):
    config, report = read_config(written_out(text))
    assert config is not None, report.problems
    assert TaskConfig.model_validate_json(to_json(config)) == config


@given(INSTRUCTIONS)
@settings(max_examples=100)
def test_every_path_found_in_any_text_is_a_clean_one_below_a_root(text):
    roots = ("/app", "/workspace")
    for candidate in named_paths(strip_canary(text), roots, "/app"):
        assert candidate.path == posixpath.normpath(candidate.path)
        assert any(candidate.path.startswith(f"{root}/") for root in roots)


@given(
    toml=st.binary(max_size=60) | DOCUMENTS,
    instruction=st.binary(max_size=60) | INSTRUCTIONS,
    script=st.binary(max_size=60),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_in_its_files_make_a_folder_fail(toml, instruction, script):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "tests").mkdir()
        (root / "task.toml").write_bytes(toml if isinstance(toml, bytes) else written_out(toml).encode())
        (root / "instruction.md").write_bytes(
            instruction if isinstance(instruction, bytes) else instruction.encode("utf-8", "replace")
        )
        (root / "tests/test.sh").write_bytes(script)
        read = read_folder(root, "task")
        found = read.task() if isinstance(read, TaskOutline) else read
        assert type(found).model_validate_json(to_json(found)) == found
        if isinstance(found, Task):
            assert all(to_json(problem) for problem in lint(found, {}))
        else:
            assert isinstance(found, BrokenTask)
            assert any(problem.severity == "error" for problem in found.problems)
