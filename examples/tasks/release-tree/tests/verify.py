import hashlib
import json
import os
from pathlib import Path

import verifier_kit as kit

RELEASE = "/workspace/release"
KEYS = ["path", "bytes", "sha256"]
TRUTH = {entry["path"]: entry for entry in json.loads(Path(__file__).with_name("truth.json").read_text())}


def judge():
    entries = read_manifest()
    released = [path for path in TRUTH if is_released(path)]
    wrong = [path for path in TRUTH if path not in released]
    # An empty release has nothing superfluous in it, and that is worth nothing.
    share = len(released) / len(TRUTH)
    extra = superfluous_files()
    paths = [entry["path"] for entry in entries]
    listed = [path for path in TRUTH if TRUTH[path] in entries]
    return [
        kit.Dimension("files", share, weight=3, evidence=f"missing or changed: {wrong}"),
        kit.Dimension("nothing_else", 0.0 if extra else share, evidence=f"superfluous: {extra[:5]!r:.300}"),
        kit.Dimension("manifest_entries", len(listed), len(TRUTH), weight=3, evidence=f"right: {listed}"),
        kit.check("manifest_order", paths == sorted(TRUTH), f"found {paths[:8]!r:.300}"),
    ]


def read_manifest():
    manifest = kit.read_json(f"{RELEASE}/MANIFEST.json")
    kit.require_keys(manifest, ["files"])
    if not isinstance(manifest["files"], list):
        raise kit.OutputProblem("schema_mismatch", "`files` of the manifest is not a list")
    for entry in manifest["files"]:
        kit.require_keys(entry, KEYS)
    return [{key: entry[key] for key in KEYS} for entry in manifest["files"]]


def is_released(path):
    """Whether a regular file with the expected content is there, reached through no link."""
    file = Path(kit.path(RELEASE), path)
    if not file.is_file() or file.resolve() != Path(kit.path(RELEASE)).resolve() / path:
        return False
    expected = TRUTH[path]
    if file.stat().st_size != expected["bytes"]:
        return False
    return hashlib.sha256(file.read_bytes()).hexdigest() == expected["sha256"]


def superfluous_files():
    """Everything in the release that is not a folder, an expected file or the manifest."""
    root = kit.path(RELEASE)
    found = []
    for folder, subfolders, files in os.walk(root):
        links = [name for name in subfolders if Path(folder, name).is_symlink()]
        found += [Path(folder, name).relative_to(root).as_posix() for name in files + links]
    return sorted(path for path in found if path not in TRUTH and path != "MANIFEST.json")


kit.run(judge)
