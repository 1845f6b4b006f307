"""What JUnit reports of trials and of checks share: text that XML can hold, and counts that are the children's."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

CaseStatus = Literal["passed", "failure", "error", "skipped"]

# XML 1.0 has no way to write these, not even escaped.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """A text with a replacement character for whatever XML cannot hold."""
    return _NOT_IN_XML.sub("\ufffd", text)


def case_counts(cases: Iterable[CaseStatus]) -> Mapping[str, str]:
    """The attributes by which a suite counts its cases."""
    found = [*cases]
    return {
        "tests": str(len(found)),
        "failures": str(found.count("failure")),
        "errors": str(found.count("error")),
        "skipped": str(found.count("skipped")),
    }
