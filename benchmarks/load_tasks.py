"""Loading and digesting 3,566 task folders, as every plan must, against parsing each task.toml and no more."""

import resource
import tempfile
import time
import tomllib
from pathlib import Path

from benchmarks.corpus import TASK_COUNT, make_corpus
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_dataset, scan

PROMISE_SEC = 1.5


def peak_mb() -> float:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_corpus(root)
        for _ in scan(root / "group-00"):  # imports and first use are not what is measured
            pass

        start = time.process_time()
        for path in root.rglob("task.toml"):
            tomllib.loads(path.read_text())
        floor = time.process_time() - start

        before = peak_mb()
        start = time.process_time()
        streamed = sum(1 for _ in scan(root))
        scanning = time.process_time() - start
        streaming_mb = peak_mb() - before

        start = time.process_time()
        dataset = load_dataset(root)
        reading = time.process_time() - start

        start = time.process_time()
        assert len(dataset.tasks) == TASK_COUNT
        understanding = time.process_time() - start
        holding_mb = peak_mb() - before

        start = time.process_time()
        for task in dataset.tasks:
            digest_folder(task.root)
        digesting = time.process_time() - start

    assert streamed == TASK_COUNT
    loading = reading + understanding
    print(f"load {TASK_COUNT:,} tasks           {loading:6.2f} s CPU")
    print(f"  of it, what they expect     {understanding:6.2f} s CPU   which planning leaves for later")
    memory = f"+{streaming_mb:.1f} MB at the peak, +{holding_mb:.1f} MB kept"
    print(f"  one by one, not kept        {scanning:6.2f} s CPU   {memory}")
    print(f"  task.toml parsed only       {floor:6.2f} s CPU   loading costs {loading / floor:.1f} times that floor")
    print(f"digest their content          {digesting:6.2f} s CPU")
    least = reading + digesting
    print(f"plan floor: read and digest   {least:6.2f} s CPU   promised ≤ {PROMISE_SEC} s for all of planning")


if __name__ == "__main__":
    main()
