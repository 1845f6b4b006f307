"""Marks on methods: which are found, and in which order they run."""

from seatrial.env.decorators import cleanup, marked_methods, stop, teardown


class Base:
    @stop
    def first(self):
        return "first"

    @stop(priority=100)
    def urgent(self):
        return "urgent"

    @cleanup
    def sweep(self):
        return "sweep"

    def unmarked(self):
        return "unmarked"


class Child(Base):
    @stop
    def second(self):
        return "second"

    @stop(priority=-1)
    def last(self):
        return "last"

    def first(self):
        return "first of the child"

    @teardown(priority=1)
    @cleanup(priority=1)
    def both(self):
        return "both"


def names(owner, mark):
    return list(marked_methods(owner, mark))


def test_the_highest_priority_comes_first_and_equals_by_name():
    assert names(Child(), "stop") == ["urgent", "first", "second", "last"]
    assert names(Child(), "cleanup") == ["both", "sweep"]
    assert names(Child(), "teardown") == ["both"]


def test_a_condition_that_notes_something_is_asked_before_those_of_the_base_as_its_author_named_it():
    class Game(Child):
        @stop
        def check_won(self):
            return "won"

    assert names(Game(), "stop") == ["urgent", "check_won", "first", "second", "last"]


def test_a_method_that_overrides_a_marked_one_is_marked_like_it():
    assert marked_methods(Child(), "stop")["first"]() == "first of the child"


def test_none_in_its_place_takes_a_condition_away():
    class Grandchild(Child):
        urgent = None  # type: ignore[assignment]

    assert names(Grandchild(), "stop") == ["first", "second", "last"]


def test_marks_leave_methods_as_they_are():
    assert Child().both() == "both"
    assert names(Base(), "stop") == ["urgent", "first"]
