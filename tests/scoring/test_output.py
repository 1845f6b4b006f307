"""The output under the gates: present, parseable, of the right shape; and what a guess may cost."""

import pytest

from seatrial.model.artifacts import RawFile
from seatrial.model.output import OutputSpec, ShapeSpec
from seatrial.scoring.output import check_output

DECLARED = OutputSpec(path="/workspace/out.json", format="json", source="declared")
GUESSED = DECLARED.model_copy(update={"source": "guessed"})


def found(data):
    return RawFile("/workspace/out.json", "ok", data, len(data))


def codes(check):
    return [finding.code for finding in check.findings]


def test_a_good_output_leaves_nothing_to_say():
    check = check_output(DECLARED, found(b"{}"))
    assert (check.parseable, check.schema_valid, check.findings) == (True, True, ())


def test_without_a_path_there_is_nothing_to_parse():
    check = check_output(OutputSpec(), None)
    assert (check.parseable, check.schema_valid, codes(check)) == (True, True, ["note"])


def test_an_output_nobody_collected_counts_against_no_one():
    check = check_output(DECLARED, None)
    assert (check.parseable, codes(check)) == (True, ["note"])


def test_a_missing_output_is_no_output():
    check = check_output(DECLARED, RawFile("out.json", "missing"))
    assert (check.parseable, check.schema_valid, codes(check)) == (False, False, ["no_output"])
    assert "/workspace/out.json does not exist" in check.findings[0].message


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (RawFile("out.json", "directory"), "a directory"),
        (RawFile("out.json", "symlink"), "a symbolic link"),
        (RawFile("out.json", "special"), "device, socket or pipe"),
        (RawFile("out.json", "unreadable", reason="Permission denied"), "Permission denied"),
        (RawFile("out.json", "too_large", size=10**9), "1,000,000,000 bytes"),
    ],
)
def test_what_is_no_readable_file_is_unparseable(file, said):
    check = check_output(DECLARED, file)
    assert (check.parseable, codes(check)) == (False, ["unparseable"])
    assert said in check.findings[0].message


def test_a_fault_names_path_format_and_place():
    (finding,) = check_output(DECLARED, found(b'{"a": }')).findings
    assert finding.message.startswith("/workspace/out.json is not json: not JSON: ")
    assert finding.message.endswith("(line 1, column 7)")


def test_the_size_limit_is_the_task_s_own():
    small = DECLARED.model_copy(update={"max_bytes": 4})
    assert check_output(small, found(b"[ 1]")).parseable
    assert codes(check_output(small, found(b"[ 12]"))) == ["unparseable"]


@pytest.mark.parametrize("file", [RawFile("out.json", "missing"), found(b"{"), RawFile("out.json", "directory")])
def test_a_guessed_path_costs_nobody_anything(file):
    check = check_output(GUESSED, file)
    assert (check.parseable, check.schema_valid, codes(check)) == (True, True, ["note"])
    assert "only a guess" in check.findings[0].message


@pytest.mark.parametrize("status", ["ok", "directory", "too_large"])
def test_a_path_of_no_known_format_needs_only_to_exist(status):
    tree = OutputSpec(path="/workspace/release", source="inferred")
    assert check_output(tree, RawFile("release", status)).parseable
    assert codes(check_output(tree, RawFile("release", "missing"))) == ["output_missing"]


def test_a_wrong_shape_leaves_the_output_parseable():
    spec = DECLARED.model_copy(update={"shape": ShapeSpec(source="required_keys", required_keys=("a", "b"))})
    check = check_output(spec, found(b'{"a": 1}'))
    assert (check.parseable, check.schema_valid, codes(check)) == (True, False, ["schema_mismatch"])
    assert "'b' is missing" in check.findings[0].message
