"""The contract of `exec` and of limits: what a command is given, what comes back, what it may use and has used."""
# ruff: noqa: S101 - assertions are what it is for

import os
from typing import get_args

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Limit
from seatrial.sandbox.transfer import pack_files, put_file
from seatrial.testing.contract_base import Bench, ContractBase, member, scenario

MIB = 2**20


class ExecContract(ContractBase):
    """One command at a time."""

    @scenario
    async def test_output_and_exit_code(self, bench: Bench) -> None:
        """Both streams come back apart and untouched; failing is data."""
        result = await bench.sh(r"printf 'out\0\377'; printf 'err' >&2; exit 7")
        assert (result.exit_code, result.stdout, result.stderr) == (7, b"out\0\xff", b"err")
        assert not result.truncated
        assert not result.timed_out
        assert 0 <= result.duration_sec < 60

    @scenario
    async def test_files_are_there_when_the_command_starts(self, bench: Bench) -> None:
        """In a directory made for them."""
        files = (f"{bench.workdir}/new/place", pack_files({"word": b"ready"}))
        result = await bench.sh("cat new/place/word", files=files)
        assert (result.exit_code, result.stdout) == (0, b"ready")

    @scenario
    async def test_files_that_are_no_archive_are_an_error_of_ours(self, bench: Bench) -> None:
        """The command does not start."""
        with pytest.raises(SandboxError, match="archive"):
            await bench.sh(": >started", files=(bench.workdir, b"x" * 2000))
        assert await bench.ask("ls") == ""

    @scenario
    async def test_ended_by_a_signal(self, bench: Bench) -> None:
        """The exit code is the negative number of the signal."""
        for number in (9, 15):
            assert (await bench.sh(f"kill -{number} $$")).exit_code == -number

    @scenario
    async def test_the_environment_is_what_was_asked_for(self, bench: Bench) -> None:
        """Values arrive byte for byte, the command's before the sandbox's, and nothing of the host comes along."""
        asked = {"EMPTY": "", "ODD": "a=b\nü ☃ '\"$HOME`", "BOTH": "command"}
        async with bench.another(env={"BOTH": "sandbox", "ONLY": "sandbox"}) as other:
            seen = (await other.run("cat", "/proc/self/environ", env=asked)).stdout.decode()
        found = dict(entry.split("=", 1) for entry in seen.split("\0") if entry)
        expected = {**asked, "ONLY": "sandbox"}
        assert {name: found.get(name) for name in expected} == expected
        assert set(found) - set(expected) <= self.ambient_env
        assert found["PATH"]
        assert os.environ.keys() - self.ambient_env, "this test needs a host with some variables of its own"

    @scenario
    async def test_arguments_are_not_interpreted(self, bench: Bench) -> None:
        """Spaces, quotes, line ends and any language pass unchanged."""
        odd = "ü ☃\n'\"$HOME *"
        result = await bench.run("/bin/sh", "-c", 'printf "%s|" "$@"', "sh", odd, "")
        assert result.stdout.decode() == f"{odd}||"

    @scenario
    async def test_where_a_command_starts(self, bench: Bench) -> None:
        """In the working directory of the sandbox, or in the one it is given."""
        assert (await bench.ask("pwd")).endswith(bench.workdir)
        await bench.put(f"{bench.workdir}/sub dir", member("here"))
        assert (await bench.ask("pwd; ls", cwd=f"{bench.workdir}/sub dir")).endswith("/sub dir\nhere")

    @scenario
    async def test_standard_input(self, bench: Bench) -> None:
        """All of it arrives, then the end; a command need not read it."""
        content = bytes(range(256)) * 4096
        assert (await bench.run("cat", stdin=content)).stdout == content
        assert await bench.ask("wc -c") == "0"
        assert (await bench.run("true", stdin=content)).exit_code == 0

    @scenario
    async def test_a_command_that_is_not_there(self, bench: Bench) -> None:
        """Ends as in a shell: 127 and a word of explanation."""
        for name in ("no-such-command", "./no-such-file", "/no/such/folder/command"):
            result = await bench.run(name)
            assert result.exit_code == 127
            assert name.encode() in result.stderr

    @scenario
    async def test_a_command_that_cannot_be_executed(self, bench: Bench) -> None:
        """Ends as in a shell: 126 and a word of explanation."""
        await put_file(bench.sandbox, f"{bench.workdir}/plain", b"text", mode=0o644)
        result = await bench.run("./plain")
        assert result.exit_code == 126
        assert b"plain" in result.stderr

    @scenario
    async def test_output_beyond_the_limit_is_dropped_and_said_so(self, bench: Bench) -> None:
        """The command never waits for anyone to read it, and ends by itself."""
        result = await bench.run("head", "-c", str(50 * MIB), "/dev/zero", max_output=MIB)
        assert (result.exit_code, len(result.stdout), result.truncated) == (0, MIB, True)

    @scenario
    async def test_output_as_long_as_the_limit_is_whole(self, bench: Bench) -> None:
        """Only what is lost counts as truncated."""
        result = await bench.run("printf", "12345", max_output=5)
        assert (result.stdout, result.truncated) == (b"12345", False)

    @scenario
    async def test_output_into_files(self, bench: Bench) -> None:
        """Up to the same limit; then it is not in the result."""
        out, err = bench.scratch / "out", bench.scratch / "err"
        script = "head -c 2000 /dev/zero; printf oops >&2"
        result = await bench.sh(script, stdout_path=out, stderr_path=err, max_output=1000)
        assert (result.stdout, result.stderr, result.truncated) == (b"", b"", True)
        assert (out.read_bytes(), err.read_bytes()) == (bytes(1000), b"oops")


class LimitContract(ContractBase):
    """Memory, processes and disk; how fast the processor is cannot be told from a clock in a test."""

    @scenario
    async def test_a_limit_that_cannot_hold_is_refused_or_left_out(self, bench: Bench) -> None:
        """As the spec says; it never just looks enforced."""
        missing = set(get_args(Limit)) - bench.capabilities.limits
        if not missing:
            pytest.skip("this backend enforces every limit")
        for name in missing:
            limits = LimitSpec.model_validate({name: 100})
            with pytest.raises(HostUnsupportedError, match=name):
                async with bench.another(limits=limits):
                    pass
            async with bench.another(limits=limits, enforcement="partial") as other:
                assert getattr(other.sandbox.limits_enforced, name) is None

    @scenario
    async def test_limits_that_hold_are_reported(self, bench: Bench) -> None:
        """All together."""
        asked = LimitSpec.model_validate(dict.fromkeys(bench.capabilities.limits, 64))
        async with bench.another(limits=asked) as other:
            assert other.sandbox.limits_enforced == asked
            assert await other.ask("echo works") == "works"

    @scenario
    async def test_too_much_memory_is_killed_and_counted(self, bench: Bench) -> None:
        """The command that wants it, not the sandbox."""
        bench.need("memory_mb", there="memory_mb" in bench.capabilities.limits)
        async with bench.another(limits=LimitSpec(memory_mb=64)) as other:
            greedy = await other.run("dd", "if=/dev/zero", "of=/dev/null", f"bs={256 * MIB}", "count=1")
            assert greedy.exit_code == -9
            usage = await other.sandbox.usage()
            assert usage.oom_kills >= 1
            assert usage.peak_memory_bytes is None or 32 * MIB < usage.peak_memory_bytes <= 65 * MIB
            assert await other.ask("echo alive") == "alive"

    @scenario
    async def test_too_many_processes_cannot_be_started(self, bench: Bench) -> None:
        """Forking fails; once they are gone it works again."""
        bench.need("pids", there="pids" in bench.capabilities.limits)
        async with bench.another(limits=LimitSpec(pids=24)) as other:
            script = "n=0; while [ $n -lt 100 ]; do sleep 1000 & n=$((n+1)); done; echo all"
            assert b"all" not in (await other.sh(script)).stdout
            await other.sandbox.kill_all()
            assert await other.ask("echo $(echo alive)") == "alive"

    @scenario
    async def test_too_much_disk_is_refused_by_the_system(self, bench: Bench) -> None:
        """Writing fails as on any full disk."""
        bench.need("storage_mb", there="storage_mb" in bench.capabilities.limits)
        async with bench.another(limits=LimitSpec(storage_mb=32)) as other:
            result = await other.run("dd", "if=/dev/zero", "of=big", f"bs={MIB}", "count=64")
            assert result.exit_code not in (0, None)
            assert b"No space left" in result.stderr
            assert await other.ask("rm big; echo room >small; cat small") == "room"

    @scenario
    async def test_usage_grows(self, bench: Bench) -> None:
        """What a backend counts, it counts; the rest is None."""
        before = await bench.sandbox.usage()
        await bench.ask(f"head -c {5 * MIB} /dev/urandom >file; wc <file")
        after = await bench.sandbox.usage()
        assert before.oom_kills == after.oom_kills == 0
        for name, least in (("cpu_sec", 0.0), ("peak_memory_bytes", 1), ("disk_bytes", 5 * MIB)):
            first, second = getattr(before, name), getattr(after, name)
            assert (first is None) == (second is None), name
            assert second is None or second >= least, name
        assert (after.disk_bytes or 0) >= (before.disk_bytes or 0)
