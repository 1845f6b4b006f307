from pathlib import Path

import pytest

from seatrial.errors import StoreError
from seatrial.view.trial_files import place_of


def test_paths_of_a_trial_its_tries_and_its_revisions():
    assert place_of("t.1", "agent/stdout.txt") == Path("trials/t.1/agent/stdout.txt")
    assert place_of("t.1", "@try.2/record.json") == Path("tries/t.1.2/record.json")
    assert place_of("t.1", "@revision.13/verifier/out") == Path("revisions/t.1.13/verifier/out")


@pytest.mark.parametrize("path", ["", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a/.", "a\0b", "@try.1/../x"])
def test_paths_that_lead_elsewhere_are_refused(path):
    with pytest.raises(StoreError, match="expected the path of a file below the trial's folder"):
        place_of("t.1", path)


@pytest.mark.parametrize("trial_id", ["", ".", "..", "a/b", "a\0"])
def test_what_is_no_id_of_a_trial_is_refused(trial_id):
    with pytest.raises(StoreError, match="cannot be the id of a trial"):
        place_of(trial_id, "x")


@pytest.mark.parametrize("path", ["@try.0/x", "@try.01/x", "@try.x/y", "@tries.1/x", "x/@try.1"])
def test_only_numbers_lead_to_tries(path):
    assert place_of("t.1", path) == Path("trials/t.1", path)
