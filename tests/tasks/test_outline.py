"""A task before and after somebody has thought about what it expects."""

from seatrial.tasks.expected import resolve_output
from seatrial.tasks.load import load_dataset, load_task, read_folder
from seatrial.tasks.outline import TaskOutline

ASKS = "Write the answer to `/app/answer.json`.\n"


def outline_of(root):
    found = read_folder(root, "some/id")
    assert isinstance(found, TaskOutline)
    return found


def test_an_outline_becomes_the_task_that_loading_gives(make_task):
    root = make_task("pump", toml='[task]\nname = "acme/pump"', files={"instruction.md": ASKS})
    outline = outline_of(root)
    task = outline.task()
    assert task == load_task(root).model_copy(update={"id": "some/id"})
    assert (outline.id, outline.name, outline.root, outline.config) == (task.id, task.name, task.root, task.config)
    assert task.verifier.expected_output_path == "/app/answer.json"


def test_a_task_of_steps_expects_what_its_last_step_does(make_task):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {"steps/one/instruction.md": "Write `/app/a.json`.", "steps/two/instruction.md": "Write `/app/b.json`."}
    root = make_task(toml=toml, files=files)
    (root / "instruction.md").unlink(missing_ok=True)
    task = outline_of(root).task()
    assert [step.output.path for step in task.steps] == ["/app/a.json", "/app/b.json"]
    assert (task.output.path, task.verifier.expected_output_path) == ("/app/b.json", "/app/b.json")


def test_reading_a_dataset_leaves_its_instructions_for_later(make_task, monkeypatch):
    root = make_task(files={"instruction.md": ASKS})
    asked = []

    def note(*given):
        asked.append(given)
        return resolve_output(*given)

    monkeypatch.setattr("seatrial.tasks.outline.resolve_output", note)
    dataset = load_dataset(root)
    assert [outline.id for outline in dataset.outlines] == [root.name]
    assert not asked
    assert dataset.tasks[0].output.path == "/app/answer.json"
    assert dataset.tasks is dataset.tasks
    assert len(asked) == 1
