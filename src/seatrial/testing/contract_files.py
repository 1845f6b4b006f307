"""The contract of `put`, `get`, `changes`, `snapshot` and layers: files in, files out, and nothing else touched."""
# ruff: noqa: S101 - assertions are what it is for

import tarfile
import tempfile
from dataclasses import replace

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError, TooLargeError
from seatrial.sandbox.api import HOST_IMAGE, Image
from seatrial.sandbox.layers import gone_mark
from seatrial.sandbox.transfer import get_file, put_file
from seatrial.testing.contract_base import Bench, ContractBase, member, scenario


async def _lay_over(bench: Bench, *members: tarfile.TarInfo) -> None:
    with tempfile.TemporaryFile() as layer:
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for each in members:
                tar.addfile(each)
        layer.seek(0)
        await bench.sandbox.unpack_layer(bench.workdir, layer)


class FileContract(ContractBase):
    """Archives into and out of a sandbox."""

    @scenario
    async def test_what_is_put_can_be_got(self, bench: Bench) -> None:
        """With its names, modes, contents, links and empty directories."""
        sent = [
            member("empty", kind=tarfile.DIRTYPE, mode=0o750),
            member("with space", kind=tarfile.DIRTYPE, mode=0o755),
            member("with space/ünï ☃.txt", b"text", mode=0o640),
            member("tool", b"#!/bin/sh\necho works\n", mode=0o755),
            member("big", bytes(range(256)) * 20_000, mode=0o444),
            member("link", kind=tarfile.SYMTYPE, link="with space/nowhere"),
            member("absolute", kind=tarfile.SYMTYPE, link="/no/such/file"),
        ]
        await bench.put(f"{bench.workdir}/new/deep", *sent)
        got = await bench.get(f"{bench.workdir}/new/deep")
        assert got.keys() - {"."} == {info.name for info, _ in sent}
        for info, content in sent:
            found, back = got[info.name]
            assert (found.type, back, found.linkname) == (info.type, content, info.linkname), info.name
            assert info.issym() or found.mode == info.mode, info.name
        assert await bench.ask("./tool; cat 'with space/ünï ☃.txt'", cwd=f"{bench.workdir}/new/deep") == "works\ntext"

    @scenario
    async def test_one_file_comes_under_its_own_name(self, bench: Bench) -> None:
        """Also the one a command wrote."""
        await bench.ask("printf content >made")
        got = await bench.get(f"{bench.workdir}/made")
        assert {name: content for name, (_, content) in got.items()} == {"made": b"content"}

    @scenario
    async def test_putting_replaces_files_and_keeps_the_others(self, bench: Bench) -> None:
        """A second archive goes on top of the first."""
        await bench.put(bench.workdir, member("d/a", b"1"), member("d/b", b"1"))
        await bench.put(bench.workdir, member("d/b", b"2"))
        assert await bench.ask("cat d/a d/b") == "12"

    @scenario
    async def test_getting_what_is_not_there(self, bench: Bench) -> None:
        """Missing is missing, be it the file, its directory, or a file where the directory should be."""
        await bench.ask(": >file")
        for missing in ("none", "none/below", "file/below"):
            with pytest.raises(FileNotFoundError):
                await bench.get(f"{bench.workdir}/{missing}")

    @scenario
    async def test_getting_more_than_allowed(self, bench: Bench) -> None:
        """A file may be as long as the limit; beyond it, the error names the limit."""
        await bench.ask("head -c 5000 /dev/zero >file")
        assert len(await get_file(bench.sandbox, f"{bench.workdir}/file", limit=5000)) == 5000
        for path in (f"{bench.workdir}/file", bench.workdir):
            with pytest.raises(SandboxError, match="4999"):
                await bench.get(path, limit=4999)

    @scenario
    async def test_getting_neither_follows_links_nor_waits_for_pipes(self, bench: Bench) -> None:
        """What a command plants cannot make us read something else, or hang."""
        secret = bench.scratch / "secret"
        secret.write_text("of the host")
        await bench.ask(f"mkdir d; mkfifo d/pipe; ln -s {secret} d/link; ln -s {bench.scratch} out")
        got = await bench.get(f"{bench.workdir}/d")
        assert got["link"][0].issym()
        assert "pipe" not in got
        with pytest.raises(FileNotFoundError):
            await bench.get(f"{bench.workdir}/out/secret")

    @scenario
    async def test_a_planted_link_is_replaced_not_written_through(self, bench: Bench) -> None:
        """A link where a file is to go makes way for the file."""
        victim = bench.scratch / "victim"
        victim.write_text("keep")
        await bench.ask(f"printf keep >inner; ln -s inner near; ln -s {victim} far")
        for name in ("near", "far"):
            await put_file(bench.sandbox, f"{bench.workdir}/{name}", b"new")
            assert await get_file(bench.sandbox, f"{bench.workdir}/{name}", limit=10) == b"new"
        assert await bench.ask("cat inner") == "keep"
        assert victim.read_text() == "keep"

    @scenario
    async def test_nothing_is_written_through_a_planted_directory(self, bench: Bench) -> None:
        """Below a link the archive is refused; a target that leads out of the sandbox leads nowhere."""
        await bench.ask(f"mkdir inner; ln -s inner near; ln -s {bench.scratch} far")
        for name in ("near", "far"):
            with pytest.raises(SandboxError, match=f"{name}/file"):
                await bench.put(bench.workdir, member(f"{name}/file", b"new"))
        try:
            await bench.put(f"{bench.workdir}/far", member("file", b"new"))
        except SandboxError as error:
            assert "far" in str(error)  # noqa: PT017 - a sandbox may also have made the directory inside
        assert await bench.ask("ls inner") == ""
        assert not list(bench.scratch.iterdir())

    @scenario
    async def test_hostile_archives_are_refused(self, bench: Bench) -> None:
        """The error names the member."""
        hostile = [
            member("/absolute", b"x"),
            member("../above", b"x"),
            member("a/../../above", b"x"),
            member("device", kind=tarfile.CHRTYPE),
            member("pipe", kind=tarfile.FIFOTYPE),
            member("hard", kind=tarfile.LNKTYPE, link="/etc/passwd"),
        ]
        for info, content in hostile:
            with pytest.raises(SandboxError, match=info.name):
                await bench.put(f"{bench.workdir}/sub", (info, content))
        assert await bench.ask("ls; ls sub") == "sub"


class ChangesContract(ContractBase):
    """What differs from the image, seen and saved."""

    @scenario
    async def test_new_files_are_changes(self, bench: Bench) -> None:
        """Put or written, by full path, in order, any language."""
        before = set((await bench.sandbox.changes()).added)
        await put_file(bench.sandbox, f"{bench.workdir}/put", b"x")
        await bench.ask("mkdir d; : >'d/ünï'; ln -s nowhere d/link")
        changes = await bench.sandbox.changes()
        expected = {f"{bench.workdir}/{name}" for name in ("put", "d/ünï", "d/link")}
        assert set(changes.added) - before == expected
        assert list(changes.added) == sorted(changes.added)

    @scenario
    async def test_changes_can_be_counted_from_a_command_on(self, bench: Bench) -> None:
        """What was there before it is not listed, unless it was changed after all."""
        await bench.ask("echo one >before; echo one >edited")
        await bench.ask("echo two >>edited; : >after", changes_from_here=True)
        changes = await bench.sandbox.changes()
        expected = {f"{bench.workdir}/{name}" for name in ("edited", "after")}
        assert {*changes.added, *changes.modified} == expected

    @scenario
    async def test_a_file_rewritten_with_its_old_size_and_time_is_changed(self, bench: Bench) -> None:
        """What was there before is known by more than what its writer can set again."""
        await bench.ask("printf one >edited; printf one >kept")
        rewrite = "touch -r edited time; printf two >edited; touch -r time edited; rm time"
        await bench.ask(rewrite, changes_from_here=True)
        changes = await bench.sandbox.changes()
        assert {*changes.added, *changes.modified} == {f"{bench.workdir}/edited"}

    @scenario
    async def test_changes_are_listed_again_after_a_verifier(self, bench: Bench) -> None:
        """With what appeared meanwhile, and without what is the verifier's own."""
        await bench.ask(": >early", changes_from_here=True)
        first = await bench.sandbox.changes()
        await bench.sandbox.renew_verifier()
        await put_file(bench.sandbox, "/tests/test.sh", b"x", phase="verifier")
        await put_file(bench.sandbox, "/logs/verifier/reward.txt", b"1", phase="verifier")
        assert await bench.sandbox.changes() == first
        await bench.ask(": >meanwhile", phase="verifier")
        assert {*(await bench.sandbox.changes()).added} - {*first.added} == {f"{bench.workdir}/meanwhile"}

    @scenario
    async def test_files_of_a_removed_directory_are_named(self, bench: Bench) -> None:
        """Whether it is gone, or another has taken its place."""
        bench.need("layers", there="layers" not in bench.capabilities.missing)
        await bench.ask("mkdir -p gone/deep new/deep; : >gone/deep/file; : >gone/file; : >new/deep/file; : >new/kept")
        layer = bench.scratch / "layer"
        await bench.sandbox.snapshot(layer)
        base = bench.spec.image
        image = replace(base, reference="snapshot", layers=(*base.layers, layer))
        async with bench.another(image=image) as other:
            await other.ask("rm -r gone new; mkdir new; echo other >new/kept")
            changes = await other.sandbox.changes()
        expected = [f"{bench.workdir}/{name}" for name in ("gone/deep/file", "gone/file", "new/deep/file")]
        assert list(changes.removed) == expected
        assert changes.modified == (f"{bench.workdir}/new/kept",)

    @scenario
    async def test_a_snapshot_is_a_layer_to_start_from(self, bench: Bench) -> None:
        """Its files are there again, and changing them is told apart from adding and removing."""
        bench.need("layers", there="layers" not in bench.capabilities.missing)
        await bench.ask("printf old >kept; printf old >edited; : >deleted; chmod 751 kept")
        layer = bench.scratch / "layer"
        await bench.sandbox.snapshot(layer)
        base = bench.spec.image
        image = replace(base, reference="snapshot", layers=(*base.layers, layer))
        async with bench.another(image=image) as other:
            assert await other.ask("cat kept edited; ls -l kept | cut -c 1-10") == "oldold-rwxr-x--x"
            # Another size: an image's files have whole seconds, and an engine takes the same one for the same file.
            await other.ask("printf newer >edited; rm deleted; : >added")
            changes = await other.sandbox.changes()
        assert f"{bench.workdir}/added" in changes.added
        assert changes.modified == (f"{bench.workdir}/edited",)
        assert changes.removed == (f"{bench.workdir}/deleted",)

    @scenario
    async def test_a_layer_that_was_packed_makes_another_sandbox_the_same(self, bench: Bench) -> None:
        """Files, directories and links with their modes and owners, also those that their owner may not read."""
        bench.need("layers", there="layers" not in bench.capabilities.missing)
        await bench.ask("mkdir -p d/deep; printf x >'d/a b'; ln -s d link; printf y >locked; chmod 1711 d; : >gone")
        await bench.ask("printf '#!/bin/sh' >/bin/made-by-agent; chmod 000 locked")
        each = "for path in . d d/deep 'd/a b' link locked /bin/made-by-agent"
        look = f"""{each}; do set -- $(ls -ldn "$path"); echo "$path $1 $3 $4"; done; cat 'd/a b'"""
        with tempfile.TemporaryFile() as layer:
            await bench.sandbox.pack_layer(layer, 2**20)
            layer.seek(0)
            async with bench.another() as other:
                await other.ask("mkdir d locked; : >locked/inside; chmod 700 d")
                await other.sandbox.unpack_layer("/", layer)
                assert await other.ask(look) == await bench.ask(look)
                await _lay_over(other, gone_mark("gone"), gone_mark("d"))
                assert await other.ask("ls") == "link\nlocked"

    @scenario
    async def test_a_layer_that_is_too_large_is_not_packed(self, bench: Bench) -> None:
        """And nothing of it is written."""
        bench.need("layers", there="layers" not in bench.capabilities.missing)
        await bench.ask("head -c 100000 /dev/zero >large")
        with tempfile.TemporaryFile() as layer:
            with pytest.raises(TooLargeError):
                await bench.sandbox.pack_layer(layer, 50_000)
            assert layer.tell() == 0

    @scenario
    async def test_stamps_tell_of_every_touch_where_there_are_any(self, bench: Bench) -> None:
        """Also of one that leaves size and time as they were, and where a name is no text."""
        await bench.ask("""mkdir folder; printf one >file; : >"$(printf 'odd\\377')" """)
        before = await bench.sandbox.stamps()
        if before is None:
            pytest.skip("this backend cannot tell")
        assert before == await bench.sandbox.stamps()
        await bench.ask("cat file; ls folder")
        assert before == await bench.sandbox.stamps()
        for touch in ("touch -r file t; printf two >file; touch -r t file; rm t", "chmod 700 folder", ": >folder/x"):
            await bench.ask(touch)
            after = await bench.sandbox.stamps()
            assert after is not None
            assert after != before
            before = after

    @scenario
    async def test_a_snapshot_holds_what_was_changed(self, bench: Bench) -> None:
        """Whether or not this backend can start from it."""
        await bench.ask("mkdir d; printf x >'d/a b'")
        await bench.sandbox.snapshot(bench.scratch / "layer")
        assert (bench.scratch / "layer" / bench.workdir.lstrip("/") / "d/a b").read_text() == "x"

    @scenario
    async def test_an_image_that_cannot_be_used_is_refused(self, bench: Bench) -> None:
        """The host's files are never passed off as those of an image."""
        if "layers" not in bench.capabilities.missing:
            pytest.skip("this backend can use images with layers")
        for image in (Image("busybox:1", (bench.scratch,)), replace(HOST_IMAGE, layers=(bench.scratch,))):
            with pytest.raises(HostUnsupportedError, match=image.reference):
                await bench.backend.create(replace(bench.spec, image=image))
