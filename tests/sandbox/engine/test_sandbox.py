"""What is particular about containers, beside the contract that they keep like all sandboxes."""

import asyncio
from dataclasses import replace

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import (
    Copyable,
    Curation,
    ExecSpec,
    Image,
    ImageConfig,
    Network,
    Sandbox,
    SystemCopy,
    open_sandbox,
)
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.command import run_tool
from seatrial.sandbox.transfer import get_file, pack_files, put_file, put_files
from tests.docker_daemon import needs
from tests.sandbox.engine.support import SPEC, run, sh
from tests.sandbox.test_processor import busy_machine

pytestmark = needs("docker")


def test_one_container_and_its_ways():
    """Several questions at once, since making a container takes a while."""

    async def work(backend):
        async with open_sandbox(backend, replace(SPEC, env={"OURS": "of the sandbox"})) as sandbox:
            await variables_stay_with_the_command(sandbox)
            await odd_names_of_variables_arrive(sandbox)
            await a_directory_or_user_that_is_not_there(sandbox)
            await existing_directories_keep_their_mode(sandbox)
            await a_first_process_that_cannot_be_ended(sandbox)
            await nothing_of_ours_can_be_changed(sandbox)

    run(work)


async def variables_stay_with_the_command(sandbox):
    seen = await sh(sandbox, "echo $SECRET $OURS; cat /proc/[0-9]*/cmdline", env={"SECRET": "s3c" + "ret\n'$x"})
    assert seen.startswith("s3cret '$x of the sandbox\n")
    assert "s3cret" not in seen.split("\n", 1)[1]
    others = await sh(
        sandbox, "for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || cat $p/environ; done; :", env={"SECRET": "x"}
    )
    assert "SECRET" not in others.replace("SECRET=x", "", 1)  # `cat` itself


async def odd_names_of_variables_arrive(sandbox):
    result = await sandbox.exec(ExecSpec(("env",), env={"npm_config-x.y": "1", "A": "2"}))
    assert {"npm_config-x.y=1", "A=2"} <= set(result.stdout.decode().split("\n"))


async def a_directory_or_user_that_is_not_there(sandbox):
    for spec in (ExecSpec(("true",), cwd="/no/such/directory"), ExecSpec(("true",), user="nobody-here")):
        result = await sandbox.exec(spec)
        assert result.exit_code == 126
        assert any(word in result.stdout + result.stderr for word in (b"no such file", b"nobody-here"))


async def existing_directories_keep_their_mode(sandbox):
    await sh(sandbox, "mkdir -m 1777 /shared; ln -s /shared /way")
    await put_files(sandbox, "/shared", {"sub/f": b"x"})
    await put_file(sandbox, "/way/through", b"y")
    assert await sh(sandbox, "ls -ld /shared | cut -c 1-10; cat /shared/through /shared/sub/f") == "drwxrwxrwt\nyx"
    assert await get_file(sandbox, "/way/through", limit=10) == b"y"


async def a_first_process_that_cannot_be_ended(sandbox):
    await sh(sandbox, "kill -TERM 1; kill -INT 1; kill -KILL 1; (sleep 0 &); kill -9 1; true", user=0)
    await sandbox.exec(ExecSpec(("/bin/sh", "-c", "kill -9 -1; sleep 1000")))
    assert await sh(sandbox, "echo alive; cat /proc/[0-9]*/status | grep zombie || true") == "alive\n"


async def nothing_of_ours_can_be_changed(sandbox):
    for attempt in ("echo x >/.seatrial/killall", "rm -rf /.seatrial", "mv /.seatrial /x", "umount /.seatrial"):
        result = await sandbox.exec(ExecSpec(("/bin/sh", "-c", attempt)))
        assert result.exit_code != 0, attempt
    await sandbox.kill_all()


async def play_bomb(sandbox: Sandbox) -> None:
    """Fill a sandbox with processes: its files outlive them, and so does its way out."""
    bomb = """echo kept >file; awk 'BEGIN { while (1) system("sleep 1000 &") }' 2>/dev/null"""
    result = await sandbox.exec(ExecSpec(("/bin/sh", "-c", bomb), timeout_sec=2.0))
    assert result.timed_out
    assert await sandbox.processes() == ()
    assert await sh(sandbox, "cat file; echo $HTTPS_PROXY | cut -c 1-7", network=Network("public")) == "kept\nhttp://\n"


def test_everything_is_ended_even_where_there_is_no_room_for_one_more_process(monkeypatch):
    """For a moment there is; then the limit holds again."""
    since_when = "cut -d ' ' -f 22 /proc/1/stat"
    many = "for i in 0 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done"
    limits = []

    async def run_with_room(client: EngineClient, container: str, *argv: str) -> bytes:
        limits.append((await client.ask("GET", f"/containers/{container}/json"))["HostConfig"]["PidsLimit"])
        return await run_tool(client, container, *argv) if len(limits) > 1 else b""

    monkeypatch.setattr("seatrial.sandbox.engine.sandbox.run_tool", run_with_room)

    async def work(backend):
        async with open_sandbox(backend, replace(SPEC, limits=LimitSpec(pids=12))) as sandbox:
            started = await sh(sandbox, since_when)
            await play_bomb(sandbox)
            assert await sh(sandbox, since_when) == started, "it is still the same container"
            assert b"fork" in (await sandbox.exec(ExecSpec(("/bin/sh", "-c", many)))).stderr

    run(work)
    first, second = limits
    assert (first, second > 1000) == (12, True)


@needs("podman")
def test_where_nothing_can_be_run_inside_the_container_is_started_anew(monkeypatch):
    """On Podman: with Docker it is the last resort, for it may be gone then."""

    async def no_room(*_: object) -> bytes:
        return b"OCI runtime exec failed: resource temporarily unavailable"

    monkeypatch.setattr("seatrial.sandbox.engine.sandbox.run_tool", no_room)

    async def work(backend):
        async with open_sandbox(backend, replace(SPEC, limits=LimitSpec(pids=12))) as sandbox:
            await play_bomb(sandbox)

    run(work, "podman")


def test_the_user_of_the_image_is_who_runs_commands_unless_told_otherwise():
    async def work(backend):
        image = replace(SPEC.image, config=ImageConfig(user="65534"))
        async with open_sandbox(backend, replace(SPEC, image=image)) as sandbox:
            assert await sh(sandbox, "id -u") == "65534\n"
            assert await sh(sandbox, "id -u", user=0) == "0\n"
            await put_file(sandbox, "/app/of-root", b"x", mode=0o600)
            assert (await sandbox.exec(ExecSpec(("cat", "/app/of-root")))).exit_code != 0

    run(work)


def test_what_differs_is_found_without_directories_and_from_a_moment_on():
    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await sh(sandbox, "mkdir -p /new/empty; chmod 700 /root; echo x >/new/early; rm /bin/yes /bin/seq")
            files = ("/new", pack_files({"staged": b"x"}))
            await sh(sandbox, "rm /bin/wc; rm -r /tmp; mkdir /tmp; echo y >>/new/early; ln -s x /new/link; "
                              "rm /bin/tac; mkdir /bin/tac; rm /bin/sort; ln -s x /bin/sort",
                     files=files, changes_from_here=True)  # fmt: skip
            found = await sandbox.changes()
        assert found.added == ("/new/early", "/new/link")
        assert found.removed == ("/bin/wc",)
        assert found.modified == ("/bin/sort",)

    run(work)


@pytest.mark.parametrize("engine", [pytest.param(each, marks=needs(each)) for each in ("docker", "podman")])
def test_a_copy_beside_a_container_has_its_files_and_network_and_nothing_else_of_it(engine):
    async def work(backend):
        sandbox = await backend.create(SPEC)
        await sh(sandbox, "mkdir -p /app; echo staged | tee /app/staged > /etc/staged")
        serve = "echo new > /app/new; echo changed > /etc/staged; rm /bin/vi; (cd /app; httpd -p 127.0.0.1:81)"
        await sh(sandbox, serve, changes_from_here=True)
        there = await sandbox.changes()
        copy = await sandbox.copy_beside()
        assert (await sandbox.processes(), await copy.processes()) == (("httpd",), ())
        assert await copy.changes() == there
        seen = await sh(copy, "wget -q -O - http://127.0.0.1:81/new; cat /app/staged; ls /bin/vi || true")
        assert seen == "new\nstaged\n"
        await sh(sandbox, "echo later > /app/later")
        await sh(copy, "rm /app/new")
        assert await sh(sandbox, "ls /app") == "later\nnew\nstaged\n"
        assert await sh(copy, "ls /app") == "staged\n"
        await sandbox.destroy()
        with pytest.raises(SandboxError):
            await copy.processes()

    run(work, engine)


async def seen_later(backend, made: str, paths: str) -> str:
    """What a copy of a container sees of what appears in some folders of that one afterwards."""
    async with open_sandbox(backend, SPEC) as sandbox:
        await sh(sandbox, made)
        assert isinstance(sandbox, Copyable)
        copy = await sandbox.copy_beside()
        await sh(sandbox, f"for each in {paths}; do echo later > $each/later; done")
        return await sh(copy, f"for each in {paths}; do [ ! -e $each/later ] || echo $each; done")


@pytest.mark.parametrize("engine", [pytest.param(each, marks=needs(each)) for each in ("docker", "podman")])
def test_a_copy_shares_the_folders_where_services_keep_sockets_logs_and_data(engine):
    async def work(backend):
        folders = "/run /var/log /var/lib/db /var/lib/dpkg /var/tmp /opt /app"
        assert await seen_later(backend, f"mkdir -p {folders}", folders) == "/run\n/var/log\n/var/lib/db\n"
        if engine == "docker":
            await links_share_nothing(backend)

    run(work, engine)


async def links_share_nothing(backend):
    made = "mkdir -p /opt/log /var; ln -s /opt/log /var/log; ln -s /opt /run"
    assert await seen_later(backend, made, "/opt /opt/log") == ""
    assert await seen_later(backend, "mkdir -p /opt/log; ln -s /opt /var", "/opt /opt/log") == ""


async def refuse_to_decide(_: SystemCopy) -> Curation:
    raise AssertionError("there is nothing to decide")


def test_networks_and_limits_that_cannot_be_had_are_refused_with_the_reason():
    async def work(backend):
        capabilities = await backend.probe()
        assert (capabilities.backend, capabilities.isolation) == ("docker", "namespaces")
        assert capabilities.mode.startswith("Docker ")
        with pytest.raises(HostUnsupportedError, match="storage_mb: engines limit disks only"):
            await backend.create(replace(SPEC, limits=LimitSpec(storage_mb=10)))
        async with open_sandbox(backend, SPEC) as sandbox:
            with pytest.raises(HostUnsupportedError, match="host"):
                await sandbox.exec(ExecSpec(("true",), network=Network("host")))
            with pytest.raises(HostUnsupportedError, match="a system of its own"):
                await sandbox.renew_verifier(refuse_to_decide)

    run(work)


def test_listed_hosts_are_reached_through_our_proxy_and_no_others():
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async def work(backend):
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, open_sandbox(backend, SPEC) as sandbox:
            port = server.sockets[0].getsockname()[1]
            fetch = ExecSpec(
                ("wget", "-q", "-O", "-", f"http://127.0.0.1:{port}/"), env={"no_proxy": "", "NO_PROXY": ""}
            )
            for hosts, said in ((f"127.0.0.1:{port}", b"hello"), ("127.0.0.1:1", b"")):
                result = await sandbox.exec(replace(fetch, network=Network("allowlist", (hosts,))))
                assert result.stdout == said, result.stderr

    run(work)


def test_a_closed_backend_makes_nothing():
    async def work(backend):
        return backend

    backend = run(work)
    with pytest.raises(SandboxError, match="closed"):
        asyncio.run(backend.create(SPEC))


def test_images_that_no_container_can_have():
    async def work(backend):
        for image, said in ((Image("host", base="host"), "-e embedded"), (Image("no/such:1"), "docker pull no/such:1")):
            with pytest.raises(HostUnsupportedError, match=said):
                await backend.create(replace(SPEC, image=image))

    run(work)


@pytest.mark.parametrize("engine", ["docker", pytest.param("podman", marks=needs("podman"))])
def test_what_a_command_got_of_the_processors_is_known_and_its_time_is_put_off(engine):
    """Beside so many others, a third of a second of work takes longer than the time there is for it."""
    script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"

    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            with busy_machine(8):
                spec = ExecSpec(("/bin/sh", "-c", script), timeout_sec=0.5, patience_sec=50.0)
                ended = await sandbox.exec(spec)
            assert ended.exit_code == 0, ended
            assert ended.cpu_sec is not None
            assert 0.05 < ended.cpu_sec < ended.duration_sec + 1
            out_of_time = await sandbox.exec(ExecSpec(("sleep", "60"), timeout_sec=0.5, patience_sec=50.0))
            assert out_of_time.timed_out

    run(work, engine)
