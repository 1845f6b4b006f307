"""Calls one function of the agent's module with each of the inputs on stdin; answers one JSON string per input.

It knows no expected answers, so nothing the module prints, returns or replaces in here can pass for right.
"""

import importlib.util
import json
import os
import sys


def load(path):
    """The agent's module, or the reason why there is none."""
    spec = importlib.util.spec_from_file_location("modbus_crc", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - whatever the agent's code raises is its answer
        return f"import raises {type(error).__name__}"
    return module


def call(module, function, arguments):
    if isinstance(module, str):
        return module
    try:
        return describe(getattr(module, function)(*arguments))
    except ValueError:
        return "raises ValueError"
    except Exception as error:  # noqa: BLE001 - whatever the agent's code raises is its answer
        return f"raises {type(error).__name__}"


def describe(result):
    if type(result) is int:
        return f"int {result:#06x}"
    if type(result) is bytes:
        return f"bytes {result.hex()}"
    return f"bool {result}" if type(result) is bool else f"a {type(result).__name__}"


def main(path, function):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the module prints goes nowhere
    cases = json.load(sys.stdin)
    module = load(path)
    for case in cases:
        arguments = [bytes.fromhex(value) if isinstance(value, str) else value for value in case]
        answers.write(json.dumps(call(module, function, arguments)) + "\n")
        answers.flush()
    os._exit(0)  # whatever the module has started must not keep this process alive


main(*sys.argv[1:])
