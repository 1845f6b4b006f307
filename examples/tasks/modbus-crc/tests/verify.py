import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import verifier_kit as kit

MODULE = "/workspace/modbus_crc.py"
RUNNER = Path(__file__).with_name("runner.py")
TIMEOUT_SEC = 8


def judge():
    kit.read_text(MODULE)
    numbers = random.Random(20240506)
    return [
        share_right("crc16", crc16_vectors(numbers), weight=2),
        share_right("frame", frame_vectors(numbers), weight=2),
        share_right("is_valid", is_valid_vectors(numbers), weight=1),
    ]


def crc16_vectors(numbers):
    samples = [b"123456789", b"", b"\x00", b"\xff" * 4, bytes(range(256))]
    samples += [random_bytes(numbers, numbers.randint(1, 300)) for _ in range(15)]
    return [([data.hex()], f"int {crc(data):#06x}") for data in samples]


def frame_vectors(numbers):
    good = [(17, 3, bytes.fromhex("0000000a")), (0, 1, b""), (247, 127, b"\x80"), (1, 16, b"\xa5" * 252)]
    good += [
        (numbers.randint(0, 247), numbers.randint(1, 127), random_bytes(numbers, numbers.randint(0, 252)))
        for _ in range(10)
    ]
    bad = [(248, 3, b""), (-1, 3, b""), (256, 3, b"\x01"), (1, 0, b""), (1, 128, b"\x01"), (1, 3, bytes(253))]
    vectors = [([a, f, data.hex()], f"bytes {sealed(bytes([a, f]) + data).hex()}") for a, f, data in good]
    return vectors + [([a, f, data.hex()], "raises ValueError") for a, f, data in bad]


def is_valid_vectors(numbers):
    bodies = [random_bytes(numbers, size) for size in (2, 3, 5, 6, 8, 40, 120, 254)]
    valid = [sealed(body) for body in bodies]
    broken = [flip_bit(frame, numbers.randrange(len(frame) * 8)) for frame in valid[1:5]]
    broken += [body + crc(body).to_bytes(2, "big") for body in bodies[5:7]]
    wrong_length = [b"", b"\x01", crc(b"").to_bytes(2, "little"), sealed(b"\x11"), sealed(bytes(255))]
    vectors = [([frame.hex()], "bool True") for frame in valid]
    return vectors + [([frame.hex()], "bool False") for frame in broken + wrong_length]


def share_right(function, vectors, *, weight):
    answers = ask(function, [arguments for arguments, _ in vectors])
    answers += ["no answer"] * (len(vectors) - len(answers))
    wrong = [
        f"{arguments!r:.60}: found {answers[index]!r:.60}, expected {expected:.60}"
        for index, (arguments, expected) in enumerate(vectors)
        if answers[index] != expected
    ]
    return kit.share(function, wrong, len(vectors), weight)


def ask(function, cases):
    """What the agent's function answers to each case, in a process of its own; shorter when it ends or hangs early."""
    command = [sys.executable, "-I", "-B", str(RUNNER), kit.path(MODULE), function]
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, start_new_session=True) as child:
        try:
            output = child.communicate(json.dumps(cases).encode(), timeout=TIMEOUT_SEC)[0]
        except subprocess.TimeoutExpired as late:
            output = late.output or b""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return [parsed(line) for line in output.splitlines()]


def parsed(line):
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return "not an answer"


def sealed(body):
    return body + crc(body).to_bytes(2, "little")


def crc(data):
    register = 0xFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register, out = register >> 1, register & 1
            register ^= 0xA001 * out
    return register


def flip_bit(frame, position):
    changed = bytearray(frame)
    changed[position // 8] ^= 1 << position % 8
    return bytes(changed)


def random_bytes(numbers, size):
    return bytes(numbers.getrandbits(8) for _ in range(size))


kit.run(judge)
