from seatrial.check.answers import Vocabulary, read_data
from seatrial.check.mutants import DataMutants, Mutant
from seatrial.model.output import OutputFormat

INSTRUCTION = (
    'Write `load`, `safe`, `grade` (`"low"` or `"high"`), `rows` sorted by `size` without duplicates, and `note`.'
)


def mutants(text: str, answer_format: OutputFormat = "json", instruction: str = INSTRUCTION) -> list[Mutant]:
    answer = read_data(text.encode(), answer_format)
    assert answer is not None
    return [mutant for made in DataMutants(answer, Vocabulary(instruction, {})).rounds() for mutant in made]


def changes(made: list[Mutant]) -> dict[tuple[str, str], str]:
    return {(mutant.subject, mutant.kind): mutant.change for mutant in made}


def test_a_number_is_made_wrong_in_every_way():
    made = changes(mutants('{"load": 12.5}'))
    assert made == {
        ("load", "far"): "`load` is 125.0 instead of 12.5",
        ("load", "missing"): "`load` is missing",
        ("load", "closer"): "`load` is 15.0 instead of 12.5",
        ("load", "close"): "`load` is 18.75 instead of 12.5",
        ("load", "opposite"): "`load` is -12.5 instead of 12.5",
        ("load", "nan"): "`load` is NaN instead of 12.5",
        ("load", "text"): "`load` is the text `abc` instead of 12.5",
    }


def test_numbers_near_zero_move_by_more_than_any_tolerance():
    assert changes(mutants('{"load": 0.003}'))["load", "far"] == "`load` is 10.003 instead of 0.003"
    assert ("load", "closer") not in changes(mutants('{"load": 0.003}'))


def test_small_counts_are_made_wrong_by_one():
    made = changes(mutants('{"load": 3}'))
    assert made["load", "closer"] == "`load` is 4 instead of 3"
    assert ("load", "close") not in made
    assert changes(mutants('{"load": 300}'))["load", "closer"] == "`load` is 360 instead of 300"


def test_words_become_others_and_truths_their_opposite():
    made = changes(mutants('{"grade": "low", "safe": true}'))
    assert made["grade", "far"] == "`grade` is 'wrong_value' instead of 'low'"
    assert made["grade", "other"] == "`grade` is 'high' instead of 'low'"
    assert made["safe", "other"] == "`safe` is False instead of True"


def test_prose_and_what_is_left_free_stay():
    text = '{"note": 5, "summary": "high", "text": "The load is high.", "pid": 17, "generated_at": 3}'
    assert mutants(text) == []


def test_a_tolerance_that_the_instruction_gives_is_not_tried():
    made = changes(mutants('{"load": 12.5}', instruction="Write `load` within 30 %."))
    assert ("load", "closer") not in made
    assert ("load", "close") in made


def test_a_field_of_many_rows_is_wrong_in_all_of_them_and_in_some():
    rows = ", ".join(f'{{"size": {size}}}' for size in (1.5, 2.5, 3.5, 4.5, 5.5))
    made = changes(mutants(f'{{"rows": [{rows}]}}'))
    assert made["rows[].size", "far"] == "`rows[].size` is 15.0 instead of 1.5"
    assert {subject for subject, kind in made if kind == "one-far"} == {"rows[1].size", "rows[3].size", "rows[5].size"}
    assert {subject for subject, kind in made if kind == "row-missing"} == {"rows[1]", "rows[3]", "rows[5]"}
    assert ("rows", "row-order") in made
    assert ("rows", "row-twice") in made


def test_order_and_repetition_are_tried_only_where_they_are_spoken_of():
    made = changes(mutants('{"rows": [1, 2]}', instruction="Write `rows`."))
    assert {kind for _, kind in made} & {"row-order", "row-twice"} == set()


def test_cells_of_a_table_are_numbers_too():
    made = changes(mutants("item,size\nlow,1.50\nhigh,2.50\n", "csv"))
    assert made["size", "far"] == "`size` is '15.00' instead of '1.50'"
    assert made["size", "missing"] == "`size` is missing"
    assert made["size (row 2)", "one-far"] == "`size (row 2)` is '25.00' instead of '2.50'"


def test_two_numbers_change_places_where_they_differ():
    assert ("load+size", "swapped") in changes(mutants('{"load": 10.0, "size": 2.0}'))
    assert ("load+size", "swapped") not in changes(mutants('{"load": 10.0, "size": 9.0}'))


def test_every_field_has_one_strong_mutant_before_any_has_a_second():
    made = mutants('{"load": 1.5, "size": 2.5, "safe": true}')
    assert [(mutant.field, mutant.kind) for mutant in made[:3]] == [("load", "far"), ("size", "far"), ("safe", "other")]
