"""Output is kept up to its limit, never blocks the writer, and stops being kept when the command has ended."""

import asyncio
import os
from pathlib import Path

from seatrial.sandbox.capture import Capture


def scenario(coroutine):
    return asyncio.run(coroutine())


def test_what_was_written_before_the_end_is_kept():
    async def run():
        capture = Capture(None, 100)
        os.write(capture.writer, b"hello")
        content = capture.finish()
        capture.close()
        return content, capture.truncated

    assert scenario(run) == (b"hello", False)


def test_beyond_the_limit_it_is_dropped_and_said_so():
    async def run():
        capture = Capture(None, 4)
        os.write(capture.writer, b"hello")
        content = capture.finish()
        capture.close()
        return content, capture.truncated

    assert scenario(run) == (b"hell", True)


def test_exactly_the_limit_is_not_too_much():
    async def run():
        capture = Capture(None, 5)
        os.write(capture.writer, b"hello")
        content = capture.finish()
        capture.close()
        return content, capture.truncated

    assert scenario(run) == (b"hello", False)


def test_a_writer_never_blocks_however_much_it_writes():
    async def run():
        capture = Capture(None, 10)
        written = await asyncio.to_thread(write_all, capture.writer, 5_000_000)
        content = capture.finish()
        capture.close()
        return written, content

    assert scenario(run) == (5_000_000, b"x" * 10)


def write_all(descriptor, count):
    done = 0
    while done < count:
        done += os.write(descriptor, b"x" * min(65536, count - done))
    return done


def test_it_goes_to_a_file_when_there_is_one(tmp_path):
    async def run():
        capture = Capture(tmp_path / "log", 100)
        os.write(capture.writer, b"hello")
        content = capture.finish()
        capture.close()
        return content

    assert scenario(run) == b""
    assert (tmp_path / "log").read_bytes() == b"hello"


def test_a_service_left_behind_can_go_on_writing_but_is_not_kept():
    async def run():
        capture = Capture(None, 10**6)
        os.write(capture.writer, b"before")
        content = capture.finish()
        written = await asyncio.to_thread(write_all, capture.writer, 1_000_000)
        still_open = capture.open
        capture.close()
        return content, written, still_open

    assert scenario(run) == (b"before", 1_000_000, True)


def test_the_end_of_the_last_writer_is_noticed():
    async def run():
        capture = Capture(None, 10)
        capture.release_writer()
        content = capture.finish()
        return content, capture.open

    assert scenario(run) == (b"", False)


def test_closing_leaves_no_descriptor():
    async def run():
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            capture = Capture(None, 10)
            os.write(capture.writer, b"x")
            capture.close()
            capture.close()
        return len(os.listdir("/proc/self/fd")) - before

    assert scenario(run) == 0


def test_what_is_kept_is_heard_of_as_it_comes():
    async def run():
        heard: list[bytes] = []
        arrived = asyncio.Event()

        def hear(data: bytes) -> None:
            heard.append(data)
            arrived.set()

        capture = Capture(None, 8, hear)
        os.write(capture.writer, b"first")
        await arrived.wait()
        before_the_end = list(heard)
        os.write(capture.writer, b"second")
        content = capture.finish()
        capture.close()
        return before_the_end, heard, content

    assert scenario(run) == ([b"first"], [b"first", b"sec"], b"firstsec")


def test_a_full_disk_is_no_failure_of_the_command():
    async def run():
        capture = Capture(Path("/dev/full"), 100)
        os.write(capture.writer, b"hello")
        content = capture.finish()
        capture.close()
        return content, capture.truncated

    assert scenario(run) == (b"", True)
