"""The JUnit XML that GitLab, Jenkins and the actions of GitHub read, in our words: what may stand where.

It is the strict common part: suites, suites' cases, one ending for each case, and attributes that all three know.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

_COUNT, _SECONDS = re.compile(r"\d+"), re.compile(r"\d+\.\d{3}")
_MOMENT, _TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"), re.compile(r"(?s).*")
_NAME = re.compile(r"(?s).+")

_COUNTS = {"tests": _COUNT, "failures": _COUNT, "errors": _COUNT}
REQUIRED = {
    "testsuites": _COUNTS,
    "testsuite": {"name": _NAME, **_COUNTS, "skipped": _COUNT, "time": _SECONDS},
    "testcase": {"classname": _NAME, "name": _NAME, "time": _SECONDS},
    "failure": {"type": _NAME, "message": _NAME},
    "error": {"type": _NAME, "message": _NAME},
    "skipped": {"message": _NAME},
    "system-out": {},
}
OPTIONAL = {"testsuites": {"name": _TEXT, "time": _SECONDS}, "testsuite": {"timestamp": _MOMENT}}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}
ENDINGS = {"failure", "error", "skipped"}


def junit_faults(text: bytes) -> Iterator[str]:
    """What a reader of JUnit could trip over."""
    root = ET.fromstring(text)  # noqa: S314 - our own
    if root.tag != "testsuites":
        yield f"the root is {root.tag}"
    for element in root.iter():
        yield from _faults(element)
    for suite in root:
        yield from _count_faults(suite, list(suite))
    yield from _count_faults(root, [case for suite in root for case in suite])
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    if len(names) != len(set(names)):
        yield "two cases have one name: a reader would keep one of them"


def _faults(element: ET.Element) -> Iterator[str]:
    required, optional = REQUIRED.get(element.tag), OPTIONAL.get(element.tag, {})
    if required is None:
        yield f"{element.tag} is unknown"
        return
    yield from (f"{element.tag} has no {name}" for name in required.keys() - element.keys())
    for name, value in element.items():
        allowed = {**required, **optional}.get(name)
        if allowed is None or not allowed.fullmatch(value):
            yield f"{element.tag} has {name}={value!r}"
    tags = [child.tag for child in element]
    yield from (f"{tag} in {element.tag}" for tag in set(tags) - CHILDREN.get(element.tag, set()))
    if element.tag == "testcase" and sum(tag in ENDINGS for tag in tags) > 1:
        yield "a case ends twice"


def _count_faults(parent: ET.Element, cases: list[ET.Element]) -> Iterator[str]:
    ended = {tag: sum(case.find(tag) is not None for case in cases) for tag in ENDINGS}
    found = {"tests": len(cases), "failures": ended["failure"], "errors": ended["error"], "skipped": ended["skipped"]}
    for name, count in found.items():
        if name in parent.attrib and parent.get(name) != str(count):
            yield f"{parent.tag} counts {parent.get(name)} {name}, and there are {count}"
