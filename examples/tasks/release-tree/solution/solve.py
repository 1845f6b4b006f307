import hashlib
import json
import re
from pathlib import Path

NAME = re.compile(r"([a-z0-9-]+)__([a-z0-9-]+)__v(0|[1-9][0-9]*)\.txt")


def newest(drop):
    """The released file of each unit and kind."""
    versions = {}
    for file in drop.iterdir():
        match = NAME.fullmatch(file.name)
        if match:
            versions.setdefault(match.group(1, 2), []).append((int(match.group(3)), file))
    return {place: max(files)[1] for place, files in versions.items()}


release, entries = Path("release"), []
for (unit, kind), file in newest(Path("drop")).items():
    target = release / unit / kind / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    content = file.read_bytes()
    target.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    entries.append({"path": target.relative_to(release).as_posix(), "bytes": len(content), "sha256": digest})

entries.sort(key=lambda entry: entry["path"])
(release / "MANIFEST.json").write_text(json.dumps({"files": entries}, indent=2) + "\n")
