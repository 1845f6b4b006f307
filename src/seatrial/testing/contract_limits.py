"""The contract of limits and usage: what is enforced, what is refused, what is counted."""
# ruff: noqa: S101 - assertions are what it is for

from typing import get_args

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Limit
from seatrial.testing.contract_base import Bench, ContractBase, scenario

MIB = 2**20


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
