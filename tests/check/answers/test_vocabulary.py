from seatrial.check.answers.vocabulary import Vocabulary

BEAM = """
The check it comes from governs (`"deflection"` or `"stress"`). The verdict is `"pass"` or `"fail"`.

Write `utilisation` and `note`, which may say anything. The frame is at most 252 bytes, 0xA001 is the polynomial,
and 1,024 the size. Results within 5 % are fine; 40 % of the rows are bad.
"""


def words(instruction: str, **tests: str) -> Vocabulary:
    return Vocabulary(instruction, {name: text.encode() for name, text in tests.items()})


def test_names_and_words_are_whole_ones():
    beam = words(BEAM, verify='assert answer["side"] == "left"')
    assert beam.names("utilisation")
    assert not beam.names("util")
    assert beam.knows("stress")
    assert beam.knows("left")
    assert not beam.knows("right")


def test_other_words_are_those_quoted_beside_it():
    assert words(BEAM).others_like("pass") == ("fail", "stress", "deflection")
    assert words(BEAM).others_like("unheard") == ()


def test_numbers_are_read_in_every_notation():
    beam = words(BEAM)
    assert [beam.says_number(value) for value in (252, 0xA001, 1024, 253)] == [True, True, True, False]


def test_fields_are_free_by_their_name_or_by_what_is_said_of_them():
    beam = words("`colour` may be any text.\n`size` is the size.")
    assert [beam.leaves_free(name) for name in ("colour", "size")] == [True, False]
    assert all(beam.leaves_free(name) for name in ("pid", "notes", "generated_at", "createdAt", "run_id"))


def test_the_widest_tolerance_is_one_that_is_said_to_be_one():
    assert words(BEAM).widest_tolerance == 0.4
    assert words("50 % of the load is live.").widest_tolerance == 0


def test_exact_bytes_are_asked_for_in_many_words():
    asked = ["byte for byte", "must match exactly", "its SHA-256", "exactly the following text", "no trailing newline"]
    assert all(words(f"The file is … {text} …").exact_bytes for text in asked)
    free = ["exactly these keys", "exactly this structure", "the exact value of pi", "one JSON object per line"]
    assert [words(text).exact_bytes for text in free] == [None] * 4


def test_orders_of_keys_and_ends_of_lines_are_noticed():
    assert words("with sorted keys").ordered_keys
    assert words("The keys appear in this order").ordered_keys
    assert words("ends in a newline").last_line
    assert (words(BEAM).ordered_keys, words(BEAM).last_line) == (None, None)
