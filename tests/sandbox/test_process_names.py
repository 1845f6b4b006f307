"""How processes are named in records, and which of them are alive."""

from hypothesis import given
from hypothesis import strategies as st

from seatrial.sandbox.process_names import NO_NAME, is_alive, session_of, shown_name, split_stat

REST = "{state} 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0 {threads} 0 99"


def stat(name: str, state: str = "S", threads: int = 1) -> str:
    return f"17 ({name}) {REST.format(state=state, threads=threads)}\n"


@given(st.text(max_size=15))
def test_whatever_a_process_calls_itself_its_fields_are_found(name):
    found, fields = split_stat(stat(name))
    assert found == name
    assert (is_alive(fields), session_of(fields)) == (True, 3)


@given(st.text(max_size=15))
def test_what_is_shown_is_one_line_and_never_nothing(name):
    assert shown_name(name).isprintable()
    assert shown_name(name)


def test_names_that_show_nothing():
    assert [shown_name(name) for name in ("", " ", "\n", "a\nb")] == [NO_NAME, NO_NAME, NO_NAME, "a\\nb"]


def test_a_process_is_alive_while_any_of_its_threads_is():
    cases = {("S", 1): True, ("Z", 1): False, ("X", 0): False, ("Z", 2): True}
    for (state, threads), alive in cases.items():
        assert is_alive(split_stat(stat("x", state, threads))[1]) is alive
    assert not is_alive(split_stat("")[1])
