"""Labels of tasks: what strangers write under [metadata], and nothing of it is an error."""

from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.config import TaskConfig
from seatrial.model.job import TaskLabels
from seatrial.tasks.labels import labels_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=5,
)
KEYS = ("category", "difficulty", "family", "template", "tags", "keywords")


def labels(**metadata):
    return labels_of(TaskConfig(metadata=metadata))


def test_what_most_tasks_write():
    assert labels(category="beams", difficulty="easy", tags=["steel", "steel", "static"], family="b-12") == TaskLabels(
        category="beams", difficulty="easy", family="b-12", tags=("steel", "static")
    )


def test_numbers_and_single_words_are_labels_too():
    assert labels(difficulty=3, tags="one", template=7) == TaskLabels(difficulty="3", family="7", tags=("one",))


def test_what_is_no_label_is_left_out():
    assert labels(category={"a": 1}, difficulty=True, tags=[["x"], None, " "], family=["y"]) == TaskLabels()


@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_anything_goes(metadata):
    found = labels(**metadata)
    assert all(len(tag) <= 100 and tag.strip() for tag in found.tags)
