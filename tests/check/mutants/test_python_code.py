import ast

from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.mutant import Mutant
from seatrial.check.mutants.python_code import PythonMutants, read_python

SOURCE = '''\
"""A module."""


def is_even(number: int) -> bool:
    """Whether it is."""
    if number > 247:
        raise ValueError("%d is too large" % number)
    return number % 2 == 0


class Box:
    def area(self): return self.width * self.height


def _log(text):
    print(text)


def nothing():
    """Does nothing."""
'''
INSTRUCTION = "Write `is_even`, for numbers up to 247, and `area` of a Box."


def mutants(source: str = SOURCE, instruction: str = INSTRUCTION) -> list[Mutant]:
    tree = read_python(source.encode())
    assert tree is not None
    return [mutant for made in PythonMutants(source, tree, Vocabulary(instruction, {})).rounds() for mutant in made]


def test_functions_do_nothing_those_that_are_named_first():
    made = [(mutant.field, mutant.named) for mutant in mutants() if mutant.kind == "does-nothing"]
    assert made == [("is_even", True), ("Box.area", True), ("_log", False)]


def test_a_function_of_one_line_can_do_nothing_too():
    content = next(mutant.content for mutant in mutants() if mutant.field == "Box.area")
    assert b"    def area(self): return None\n" in content


def test_a_predicate_always_says_the_same():
    made = {mutant.kind for mutant in mutants() if mutant.field == "is_even"}
    assert made == {"does-nothing", "always-true", "always-false", "slip"}


def test_slips_are_on_what_the_instruction_speaks_of():
    changes = [mutant.change for mutant in mutants() if mutant.kind == "slip"]
    assert changes == [
        "in `is_even`, 247 is 248 (line 6)",
        "in `is_even`, the condition in line 6 is reversed",
        "in `Box.area`, the operator in line 12 is another one",
    ]


def test_each_is_python_that_means_something_else():
    original = ast.dump(ast.parse(SOURCE))
    dumps = [ast.dump(ast.parse(mutant.content)) for mutant in mutants()]
    assert original not in dumps
    assert len(set(dumps)) == len(dumps)


def test_letters_beyond_ascii_before_a_change_do_not_move_it():
    made = mutants('def area(): return "äöü", 3 * 247\n')
    assert any(b'"\xc3\xa4\xc3\xb6\xc3\xbc", 3 * 248' in mutant.content for mutant in made)


def test_what_is_no_python_is_not_read():
    assert read_python(b"def f(:") is None
    assert read_python(b"\0") is None
    assert read_python(b"(" * 10_000) is None
