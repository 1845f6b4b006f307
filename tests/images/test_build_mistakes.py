"""Builds that cannot be: what is wrong is said with its line, and nothing outside of the context is reached."""

import tarfile

import pytest

from seatrial.errors import BuildError, ImageError, UsageError
from tests.images.building.support import BASE, REAL_BUILDS, Builder, build, look_at, with_builder, write_context

pytestmark = REAL_BUILDS


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
