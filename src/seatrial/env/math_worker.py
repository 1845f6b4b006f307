"""The process in which mathematical answers are compared: `python -m seatrial.env.math_worker`, a line for each.

A comparison may go on for ever, and what ends it is a signal, which only the main thread of a process gets. In comes
`{"answer", "response", "seconds"}`, out goes whether they are the same, as 1 or 0.
"""

import sys
from importlib import import_module
from typing import Any, TextIO

import orjson


def main(questions: TextIO = sys.stdin, answers: TextIO = sys.stdout) -> None:
    math_verify = import_module("math_verify")
    for line in questions:
        answers.write(f"{int(is_same(math_verify, orjson.loads(line)))}\n")
        answers.flush()


def is_same(math_verify: Any, question: dict[str, Any]) -> bool:
    """Whether two expressions are the same; what cannot be read in time, or at all, is not."""
    seconds = question["seconds"]
    try:
        answer, response = (
            math_verify.parse(rf"\boxed{{{question[name]}}}", parsing_timeout=seconds)
            for name in ("answer", "response")
        )
        return bool(math_verify.verify(answer, response, timeout_seconds=seconds))
    except BaseException as error:  # its own time-out is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return False


if __name__ == "__main__":
    main()
