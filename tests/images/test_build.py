"""Real builds on the embedded sandbox, from a root with nothing but busybox."""

import asyncio
import os
import tarfile
from dataclasses import replace

import pytest

from seatrial.errors import BuildError, ImageError, UsageError
from seatrial.images.build import BuildSpec, build_image
from seatrial.sandbox.api import NO_NETWORK, ExecSpec, Network, SandboxSpec, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from tests.images.building.support import BASE, REAL_BUILDS, Builder, build, look_at, with_builder, write_context

pytestmark = REAL_BUILDS


def test_commands_files_and_settings(store_root, context):
    dockerfile = f"""
FROM {BASE}
ENV WHO=world
ARG GREETING=hello
WORKDIR /app
COPY data.txt .
RUN echo "$GREETING $WHO $(cat data.txt)" > out && ln -s out link
USER alice
CMD ["./out"]
"""
    built, builder = build(store_root, context, dockerfile, {"data.txt": "data"})
    found = look_at(built.image, "/app")
    assert found["/app/out"] == ("-rw-r--r--", "0:0", "hello world data\n")
    assert found["/app/link"] == ("lrwxrwxrwx", "0:0", "out")
    config = built.image.config
    assert (config.env["WHO"], config.workdir, config.user, config.command) == ("world", "/app", "alice", ("./out",))
    assert "GREETING" not in config.env
    assert builder.sandboxes == 1
    assert built.image.digest == built.stored.digest


def test_what_was_built_before_needs_no_sandbox(store_root, context):
    dockerfile = f"FROM {BASE}\nWORKDIR /again\nRUN echo once > a\nCOPY f b\nRUN cat a b\nENV X=1\n"
    first, builder = build(store_root, context, dockerfile, {"f": "content"})
    assert builder.sandboxes == 2
    second, builder = build(store_root, context, dockerfile)
    assert (builder.backends, second.cached, second.steps) == ([], 6, 6)
    assert builder.ways == ["noted", "cached", "cached", "cached", "cached", "noted"]
    assert second.image == first.image
    assert second.log.read_text() == first.log.read_text()
    assert "#5 RUN cat a b\nonce\ncontent" in second.log.read_text()


@pytest.mark.parametrize(
    ("change", "sandboxes"),
    [("nothing", 0), ("content", 1), ("mode", 1), ("name", 1), ("variable", 1)],
)
def test_only_what_matters_makes_a_step_run_again(store_root, context, change, sandboxes):
    dockerfile = f"FROM {BASE}\nENV A=1\nCOPY d /{change}\nRUN ls /{change}\n"
    build(store_root, context, dockerfile, {"d/f": "x", "d/skip": "y", ".dockerignore": "d/skip"})
    match change:
        case "nothing":
            os.utime(context / "d/f", (1, 1))
            (context / "d/skip").write_text("z")
            dockerfile += "LABEL a=b\nEXPOSE 80\n"
        case "content":
            (context / "d/f").write_text("z")
        case "mode":
            (context / "d/f").chmod(0o755)
        case "name":
            (context / "d/f").rename(context / "d/g")
        case "variable":
            dockerfile = dockerfile.replace("A=1", "A=2")
    _, builder = build(store_root, context, dockerfile)
    assert builder.sandboxes == sandboxes


def test_many_who_ask_at_once_get_one_build(store_root, context):
    """Both within a process and beside another one that has the store open."""
    write_context(context, f"FROM {BASE}\nRUN echo together; sleep 0.2\nRUN echo and again\n")

    async def scene(builder: Builder):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(builder.build(context)) for _ in range(8)]
        return {task.result().image.digest for task in tasks}, builder.sandboxes

    digests, sandboxes = with_builder(store_root, scene)
    assert (len(digests), sandboxes) == (1, 2)


def test_a_failing_command(store_root, context):
    with pytest.raises(BuildError) as raised:
        build(store_root, context, f"FROM {BASE}\n\nRUN echo so far; \\\n  echo no good >&2; exit 7\nRUN never\n")
    said = str(raised.value)
    assert said.startswith(f"{context}/Dockerfile:3: RUN: it ended with exit code 7; ")
    assert said.endswith("\n    so far\n    no good")


def test_a_failed_build_keeps_what_it_has_done_and_nothing_else(store_root, context):
    dockerfile = f"FROM {BASE}\nRUN echo kept > /kept\nRUN touch /lost && false\n"
    layers = store_root / "layers"

    async def scene(builder: Builder):
        before = set(layers.iterdir())
        with pytest.raises(BuildError, match="silently"):
            await builder.build(write_context(context, dockerfile))
        left = [path.name for path in builder.store.session.path.iterdir() if path.is_dir()]
        return set(layers.iterdir()) - before, left

    new, left = with_builder(store_root, scene)
    assert [path.name for path in next(iter(new)).glob("root/*")] == ["kept"]
    assert (len(new), left) == (1, [])


def test_a_cancelled_build_leaves_nothing(store_root, context):
    write_context(context, f"FROM {BASE}\nRUN echo started; exec sleep 1000\n")

    async def scene(builder: Builder):
        before = set((store_root / "layers").iterdir())
        task = asyncio.ensure_future(builder.build(context))
        await builder.heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = [path for path in builder.store.session.path.iterdir() if path.is_dir()]
        assert list((store_root / "locks").iterdir()) == []
        return set((store_root / "layers").iterdir()) - before, left

    assert with_builder(store_root, scene) == (set(), [])


def test_time_runs_out(store_root, context):
    dockerfile = f"FROM {BASE}\nRUN echo patience; exec sleep 1000\n"
    with pytest.raises(BuildError, match=r"Dockerfile:2: RUN: it was ended after 0\.5 seconds"):
        build(store_root, context, dockerfile, run_timeout_sec=0.5)
    with pytest.raises(BuildError, match=r"Dockerfile:2: the build was ended here after 0\.6 seconds"):
        build(store_root, context, dockerfile, timeout_sec=0.6)


def test_here_documents(store_root, context):
    dockerfile = f"""FROM {BASE}
ENV NAME=value
RUN <<EOF
echo $NAME > /simple
EOF
RUN cat <<'EOF' > /shell && echo done >> /shell
literal $NAME
EOF
RUN <<-EOF
	#!/bin/sed 1d
	kept as it is
EOF
COPY <<one <<'two' /files/
expanded "$NAME"
one
literal $NAME
two
COPY --chmod=600 <<EOF /single
x
EOF
"""
    built, builder = build(store_root, context, dockerfile)
    found = {path: what[2] for path, what in look_at(built.image).items()}
    assert found["/simple"] == "value\n"
    assert found["/shell"] == "literal $NAME\ndone\n"
    assert found["/files/one"] == 'expanded "value"\n'
    assert found["/files/two"] == "literal $NAME\n"
    assert look_at(built.image)["/single"] == ("-rw-------", "0:0", "x\n")
    assert "kept as it is" in builder.output
    assert not [path for path in found if "seatrial" in path]


def test_only_the_stages_that_are_needed(store_root, context):
    dockerfile = f"""
ARG BASE={BASE}
FROM $BASE AS first
RUN echo first > /made
FROM $BASE AS useless
RUN false
FROM first AS second
RUN echo second >> /made
FROM scratch
COPY --from=second /made /from-name
COPY --from=0 /made /from-number
COPY --from={BASE} /etc/passwd /from-image
"""
    built, _ = build(store_root, context, dockerfile)
    found = {path: what[2] for path, what in look_at(built.image).items()}
    assert found["/from-name"] == "first\nsecond\n"
    assert found["/from-number"] == "first\n"
    assert found["/from-image"].startswith("root:")
    assert set(found) == {"/from-name", "/from-number", "/from-image"}
    other, _ = build(store_root, context, dockerfile, target="first")
    assert look_at(other.image)["/made"][2] == "first\n"
    with pytest.raises(BuildError, match="there is no stage 'third'; there are first, useless, second, 3"):
        build(store_root, context, dockerfile, target="third")


def test_arguments(store_root, context):
    dockerfile = f"""
ARG GLOBAL=global
ARG UNSEEN=unseen
FROM {BASE} AS one
ARG GLOBAL
ARG GIVEN=default
ARG DERIVED=$GIVEN-more
ARG BARE
ENV SHADOWED=env
ARG SHADOWED=arg
RUN echo "$GLOBAL $UNSEEN $GIVEN $DERIVED $BARE $SHADOWED $TARGETOS $HTTP_PROXY"
ARG TARGETOS
RUN echo "os $TARGETOS"
FROM one
RUN echo "inherited $GIVEN"
"""
    given = {"GIVEN": "given", "HTTP_PROXY": "http://proxy", "TYPO": "x"}
    _, builder = build(store_root, context, dockerfile, arguments=given)
    assert builder.output == "global  given given-more  env  \nos linux\ninherited given\nnot used: --build-arg TYPO\n"


def test_the_way_out_is_there_for_commands_only(store_root, context):
    dockerfile = f'FROM {BASE}\nRUN test -n "$HTTPS_PROXY"\nRUN --network=none test -z "$HTTPS_PROXY"\n'
    built, _ = build(store_root, context, dockerfile, network=Network("public"))
    assert list(built.image.config.env) == ["PATH"]


def test_what_belongs_to_the_machine_stays_out_of_the_image(store_root, context):
    """A base that has such files of its own keeps them; links that lead out of a layer are not followed."""
    dockerfile = f"""
FROM {BASE} AS own
COPY hosts /etc/hosts
COPY hosts /etc/resolv.conf
FROM own
RUN grep -q localhost /etc/hosts && echo x > /x
RUN rm -rf /etc && ln -s {context} /etc
"""
    hosts = context / "hosts"
    built, _ = build(store_root, context, dockerfile, {"hosts": "own\n"})
    assert hosts.read_text() == "own\n"
    assert look_at(built.image)["/etc"][2] == str(context)
    assert sorted(path.name for path in built.image.layers[-2].iterdir()) == ["x"]


def test_directories_for_caches_are_not_in_the_image(store_root, context):
    mounts = "--mount=type=cache,target=/link/x --mount=type=tmpfs,dst=t"
    command = "ls /link/x t && touch /real/x/y t/z /kept"
    dockerfile = f"FROM {BASE}\nRUN mkdir /real && ln -s real /link\nWORKDIR /w\nRUN {mounts} {command}\n"
    built, _ = build(store_root, context, dockerfile)
    found = look_at(built.image)
    assert "/kept" in found
    assert not {"/real/x/y", "/w/t/z"} & set(found)


def test_some_of_a_directory(store_root, context):
    files = {"d/a.py": "", "d/b.log": "", "d/sub/c.log": "", "d/sub/d.py": ""}
    built, _ = build(store_root, context, f"FROM {BASE}\nCOPY --exclude=**/*.log d /x\n", files)
    assert sorted(look_at(built.image, "/x")) == ["/x/a.py", "/x/sub", "/x/sub/d.py"]


def test_removed_and_renamed_in_later_layers(store_root, context):
    dockerfile = f"""
FROM {BASE}
RUN mkdir -p /a/b /c && echo 1 > /a/b/f && echo 2 > /c/g
RUN mv /a /moved && rm -r /c && mkdir /c && echo 3 > /c/h && rm /bin/yes
COPY f /c/g2
"""
    built, _ = build(store_root, context, dockerfile, {"f": "4"})
    found = look_at(built.image)
    assert found["/moved/b/f"][2] == "1\n"
    assert sorted(path for path in found if path.startswith("/c/")) == ["/c/g2", "/c/h"]
    assert "/a" not in found
    assert "/bin/yes" not in found


def test_what_we_see_in_layers_is_what_a_sandbox_shows(store_root, context):
    dockerfile = f"""
FROM {BASE}
RUN mkdir -p /t/a/b /t/c /t/d && echo 1 > /t/a/b/f && ln -s /t/a /t/l && echo x > /t/c/x && echo y > /t/d/y
RUN rm -r /t/a/b /t/c && mkdir /t/c && echo z > /t/c/z && rm /t/d/y && mkdir /t/d/y && ln -s nowhere /t/d/n
COPY f /t/d/y/f
"""

    async def scene(builder: Builder):
        built = await builder.build(write_context(context, dockerfile, {"f": "4"}))
        spec = SandboxSpec(image=built.image, workdir="/")
        async with EmbeddedBackend() as backend, open_sandbox(backend, spec) as sandbox:
            result = await sandbox.exec(ExecSpec(("find", "/t", "-mindepth", "1")))
        return sorted(result.stdout.decode().split()), sorted(look_at(built.image, "/t"))

    inside, seen = with_builder(store_root, scene)
    assert inside == seen
    assert "/t/d/y/f" in seen


def test_another_user_and_a_missing_one(store_root, context):
    _, builder = build(store_root, context, f"FROM {BASE}\nUSER alice:staff\nRUN id -u; id -g; echo $HOME\n")
    assert builder.output == "1000\n50\n/home/alice\n"
    with pytest.raises(BuildError, match=r"(?s)exit code 126.*user 'nobody-here' is not in"):
        build(store_root, context, f"FROM {BASE}\nUSER nobody-here\nRUN true\n")


def test_triggers_of_the_base(store_root, context):
    built, _ = build(
        store_root, context, f"FROM {BASE}\nONBUILD COPY f /triggered\nONBUILD RUN echo hi >> /triggered\n"
    )
    assert "/triggered" not in look_at(built.image)

    async def scene(builder: Builder):
        builder.store.name_image(built.stored.digest, "with-triggers:1")
        return await builder.build(write_context(context, "FROM with-triggers:1\n", {"f": "x\n"}))

    result = with_builder(store_root, scene)
    assert look_at(result.image)["/triggered"][2] == "x\nhi\n"
    assert result.stored.document.config.on_build == ()


def test_on_the_hosts_own_system(store_root, context):
    copies = "COPY --chmod=755 f /usr/local/bin/tool\nCOPY f /root\n"
    dockerfile = f"FROM host\n{copies}RUN tool > /said && cat /root/f >> /said\n"
    built, _ = build(store_root, context, dockerfile, {"f": "#!/bin/sh\necho works\n"})
    assert (built.image.base, built.stored) == ("host", None)
    assert (built.image.layers[-1] / "said").read_text() == "works\n#!/bin/sh\necho works\n"
    with pytest.raises(UsageError, match="cannot be kept"):
        build(store_root, context, dockerfile, tags=("named:1",))


def test_a_layer_on_top_of_what_was_built(store_root, context):
    """How an agent is installed once, on whatever image a task has."""
    built, _ = build(store_root, context, "FROM host\nENV A=1\nWORKDIR /place\nRUN echo below > x\n")

    async def scene(builder: Builder):
        async def resolve(*_):
            return built.image

        means = replace(builder.means, resolve_base=resolve)
        spec = BuildSpec(context, text="FROM it\nRUN cat x > y; echo $A >> y\n", network=NO_NETWORK)
        return await build_image(spec, means)

    top = with_builder(store_root, scene).image
    assert (top.base, top.layers[:-1], top.config.workdir) == ("host", built.image.layers, "/place")
    assert (top.layers[-1] / "place/y").read_text() == "below\n1\n"


def test_nothing_private_of_the_host_is_copied(store_root, context):
    with pytest.raises(BuildError, match="Dockerfile:3: COPY: /etc/shadow is not in the image"):
        build(store_root, context, "FROM host AS one\nFROM scratch\nCOPY --from=one /etc/shadow /x\n")
    with pytest.raises(BuildError, match=r"/root/\* matches nothing"):
        build(store_root, context, "FROM host AS one\nFROM scratch\nCOPY --from=one /root/* /x/\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("COPY app.py /", "app.py is not in .*/environment, which is the task's environment/ folder; .* move it to"),
        ("COPY environment/data /", "it is in the task folder itself: write 'data'"),
        ("COPY nowhere /", "nowhere is not in the build context .*/environment$"),
        ("COPY skipped /", "skipped is left out of the build context by .dockerignore"),
        ("COPY no*thing /x/", r"no\*thing matches nothing in the build context"),
        ("COPY a[ /x/", "has no `]`"),
        ("COPY --from=missing:1 a /", "missing:1 is nowhere to be had"),
        ("COPY --chown=nobody-here data /", "no user 'nobody-here' in the image's /etc/passwd"),
        ("COPY --chown=0:nobody-here data /", "no group 'nobody-here'"),
        ("COPY --chmod=u+x data /", "--chmod takes a number"),
        ("ARG U=https://example.org/x\nADD $U /", "fetching 'https://example.org/x' is not supported"),
        ("COPY <<.. /x/\n..", "names with .. are refused"),
        ("COPY data /etc/passwd", "/etc/passwd is in the way: expected a directory"),
        ("COPY data/file /bin/busybox/x", "/bin/busybox is in the way"),
        ("COPY over /", "/etc is in the way: it is a directory in the image"),
        ("WORKDIR /etc/passwd/x", "/etc/passwd is in the way"),
        ("USER ${UNSET:?name somebody}", "UNSET: name somebody"),
        ("EXPOSE 80x", "'80x' is no port"),
        ("VOLUME $NOTHING", "a volume needs a path"),
        ("FROM $NOTHING", "stands for nothing; give it a value with --build-arg"),
        ("FROM Upper", "names no image"),
        ("FROM --platform=a/b/c/d base:1", "is not a platform"),
        ("RUN []", "the list is empty"),
    ],
)
def test_mistakes_say_where_and_why(store_root, tmp_path, line, message):
    (tmp_path / "task.toml").touch()
    (tmp_path / "app.py").touch()
    files = {"data/file": "x", "skipped": "", ".dockerignore": "skipped", "over/etc": ""}
    with pytest.raises(ImageError, match=message) as raised:
        build(store_root, tmp_path / "environment", f"FROM {BASE}\n{line}\n", files)
    if isinstance(raised.value, BuildError):
        assert "/environment/Dockerfile:2: " in str(raised.value) or "Dockerfile:3: ADD" in str(raised.value)


def test_no_dockerfile_and_no_context(store_root, context):
    context.mkdir()
    (context / "x").write_bytes(b"#" * 2_000_000)

    async def scene(builder: Builder):
        with pytest.raises(BuildError, match="there is no such file"):
            await builder.build(context)
        with pytest.raises(BuildError, match="is it a Dockerfile"):
            await builder.build(context, dockerfile=context / "x")
        with pytest.raises(UsageError, match="not a directory"):
            await builder.build(context / "nowhere")

    with_builder(store_root, scene)


def test_links_in_a_context_lead_nowhere_else(store_root, context, tmp_path):
    (tmp_path / "secret").write_text("secret")
    write_context(context, f"FROM {BASE}\nCOPY out /x\n")
    (context / "out").symlink_to("../secret")
    with pytest.raises(BuildError, match=r"out is a link to \.\./secret, and that is not in the build context"):
        build(store_root, context, f"FROM {BASE}\nCOPY out /x\n")
    (context / "circle").symlink_to("circle")
    with pytest.raises(BuildError, match="Too many levels"):
        build(store_root, context, f"FROM {BASE}\nCOPY circle /x\n")


def test_archives_with_names_that_lead_out(store_root, context):
    context.mkdir()
    with tarfile.open(context / "bad.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("../../etc/passwd"))
    with pytest.raises(BuildError, match=r"bad\.tar cannot be unpacked: names with \.\. are refused"):
        build(store_root, context, f"FROM {BASE}\nADD bad.tar /x/\n")
    built, _ = build(store_root, context, f"FROM {BASE}\nCOPY bad.tar /x/\n")
    assert "/x/bad.tar" in look_at(built.image)
