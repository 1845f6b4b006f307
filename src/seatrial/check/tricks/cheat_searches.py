"""Cheats that look for the answer instead of working it out: in the environment's files, and in its git history.

That an accepted answer lies there is looked for by its content, so what is found is the answer and no other file.
Files that the instruction names are handed out on purpose and are no find.
"""

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence

from seatrial.check.cases import AcceptedAnswer
from seatrial.check.tricks.cheat_commands import Cheat, quietly

_MIN_BYTES = 24  # what is shorter may be anywhere by chance
_MOST_ANSWERS = 10
_PLACES = "/app /workspace /root /home /opt /srv /data /tests /solution /oracle /mnt /tmp"
_FILE_NAME = re.compile(r"[\w-][\w.-]*\.\w+")
_EXPECTED = ("expected*", "*golden*", "reference*", "ground_truth*", "answer*", "solution*")
_BY_NAME = """
suffix=${output##*.}
mkdir -p "${output%/*}"
for file in $(found FOUND_NAMES); do
    case "$file" in *."$suffix") [ "$file" = "$output" ] || { cp "$file" "$output"; break; } ;; esac
done
for file in $(found -name solve.sh -o -name solution.sh); do
    (cd "${file%/*}" && timeout 60 sh "$file"); break
done
"""


def names_in(instruction: str) -> tuple[str, ...]:
    """The names of files that an instruction speaks of."""
    return tuple(sorted({name.rstrip(".") for name in _FILE_NAME.findall(instruction)}))


def search_by_name(workdir: str, output: str, named: Sequence[str]) -> Cheat:
    """A search that anybody would make: for solutions to run and for expected results to copy."""
    names = " -o ".join(f"-name {shlex.quote(name)}" for name in _EXPECTED)
    script = _BY_NAME.replace("FOUND_NAMES", names)
    return Cheat(
        "search",
        quietly([*_finder(workdir, named), f"output={shlex.quote(output)}", script]),
        "a solution or a file of expected results that lies in the environment",
        "keep solution, tests and expected results out of environment/ and out of the image",
    )


def search_by_content(workdir: str, answers: Sequence[AcceptedAnswer], named: Sequence[str]) -> Cheat | None:
    """A search for the very content of accepted answers; None where they are too short to be told from chance."""
    lines = list(_copies([answer for answer in answers if len(answer.content) >= _MIN_BYTES][:_MOST_ANSWERS]))
    if not lines:
        return None
    return Cheat(
        "shipped-answer",
        quietly([*_finder(workdir, named), *lines]),
        "a copy of the accepted answer that lies in the environment under another name",
        "take it out of environment/ and out of the image; if the task hands it out on purpose, name it there",
    )


def search_git(workdir: str, answers: Sequence[AcceptedAnswer]) -> Cheat | None:
    """A search for accepted answers in git repositories; None where they are too short to be told from chance."""
    blobs = [(answer.path, _blob_id(answer.content)) for answer in answers if len(answer.content) >= _MIN_BYTES]
    if not blobs:
        return None
    places = [f"for folder in $(find {shlex.quote(workdir)} {_PLACES} -maxdepth 4 -name .git -type d); do"]
    copies = [
        f'git --git-dir="$folder" cat-file -p {blob} > /tmp/found && cp /tmp/found {shlex.quote(path)}'
        for path, blob in blobs[:_MOST_ANSWERS]
    ]
    return Cheat(
        "git-history",
        quietly(["git config --global --add safe.directory '*'", *places, *copies, "done"]),
        "the accepted answer in a git history that the environment brings",
        "ship the repository without the commits that have the answer (a new repository, or git gc --prune=now)",
    )


def _blob_id(content: bytes) -> str:
    # By this name git keeps a file with this content; it is no question of security.
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _copies(answers: Sequence[AcceptedAnswer]) -> Iterator[str]:
    for answer in answers:
        digest, path = hashlib.sha256(answer.content).hexdigest(), shlex.quote(answer.path)
        yield f'for file in $(found -size {len(answer.content)}c); do case $(sha256sum < "$file") in {digest}*)'
        yield f'[ "$file" = {path} ] || {{ mkdir -p "$(dirname {path})"; cp "$file" {path}; }} ;; esac; done'


def _finder(workdir: str, named: Sequence[str]) -> Iterator[str]:
    """A function of the shell that lists files of the environment which the task does not name."""
    yield f'found() {{ find {shlex.quote(workdir)} {_PLACES} -maxdepth 6 -type f \\( "$@" \\) |'
    yield "while read -r path; do"
    if named:
        patterns = "|".join(f"*/{shlex.quote(name)}" for name in named)
        yield f'case "$path" in {patterns}) continue ;; esac'
    yield 'echo "$path"; done; }'
