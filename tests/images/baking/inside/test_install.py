"""What a tree of npm's does without, and what it keeps although it looks like that."""

from seatrial.images.baking.inside.install import prune_packages


def test_only_what_is_certain_goes(tmp_path):
    kept = ["a/index.js", "a/windows/paths.js", "a/vendor/x64-linux/rg", "a/darwin/index.js", "a/LICENSE"]
    gone = [
        "a/index.js.map",
        ".package-lock.json",
        "a/vendor/arm64-darwin/rg",
        "a/prebuilds/win32-x64/pty.node",
        "a/.cache/x",
    ]
    for name in (*kept, *gone):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    prune_packages(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
