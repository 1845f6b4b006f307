"""The spawner as a process: what it loads is mapped anew into every child, so it does without what it never uses."""

import sys

sys.modules.update(dict.fromkeys(("bz2", "lzma", "zlib")))  # type: ignore[arg-type]  # `shutil` takes them if it can

from seatrial.sandbox.embedded.spawner import main  # noqa: E402 - only now does it do without them

if __name__ == "__main__":
    main()
