"""RawFile and RawArtifacts: what was found, in words and by name."""

import dataclasses
from typing import get_args

import pytest

from seatrial.model.artifacts import DETAILS_NAMES, VERIFIER_FILES, FileStatus, RawArtifacts, RawFile


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (RawFile("f", "ok", b"x" * 1234, 1234), "a file of 1,234 bytes"),
        (RawFile("f", "missing"), "nothing"),
        (RawFile("f", "too_large", size=10**7), "a file of 10,000,000 bytes, more than is read"),
        (RawFile("f", "directory"), "a directory"),
        (RawFile("f", "symlink"), "a symbolic link"),
        (RawFile("f", "special"), "a device, socket or pipe"),
        (RawFile("f", "unreadable", reason="Permission denied"), "a file that cannot be read (Permission denied)"),
    ],
    ids=lambda value: value.status if isinstance(value, RawFile) else "",
)
def test_a_file_describes_itself(file: RawFile, words: str):
    assert file.describe() == words


@pytest.mark.parametrize("status", get_args(FileStatus))
def test_every_status_has_words(status: FileStatus):
    assert RawFile("f", status).describe()


def test_a_file_nobody_found_is_missing():
    raw = RawArtifacts(files={"reward.json": RawFile("reward.json", "ok", b"1", 1)})
    assert raw.file("reward.json").data == b"1"
    assert raw.file("details.json") == RawFile("details.json", "missing")


def test_nothing_is_known_unless_said():
    raw = RawArtifacts()
    assert (dict(raw.files), raw.output, raw.verifier_exit_code) == ({}, None, None)


def test_what_was_found_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RawFile("f", "missing").status = "ok"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        RawArtifacts().output = None  # type: ignore[misc]


def test_a_verifier_may_leave_five_files():
    assert VERIFIER_FILES == ("reward.json", "reward.txt", "details.json", "reward-details.json", "ctrf.json")
    assert DETAILS_NAMES[0] == "details.json"
