"""Docstrings: a description and the text on each argument, in three ways of writing."""

from seatrial.env.docstrings import read_docstring


def test_sections_with_a_colon():
    said = read_docstring(
        """Search the index.

        It is fast.

        Args:
            query (str): What to look for,
                in words.
            n: How many: at most.
            **rest: Anything.

        Returns:
            n: not an argument
        """
    )
    assert said.description == "Search the index.\n\nIt is fast."
    assert said.arguments == {"query": "What to look for,\nin words.", "n": "How many: at most.", "rest": "Anything."}


def test_sections_with_a_rule():
    said = read_docstring(
        """Multiply.

        Parameters
        ----------
        x, y : float
            The factors.
        n : int, optional
            How often.

        Returns
        -------
        z : float
            The product.
        """
    )
    assert said.description == "Multiply."
    assert said.arguments == {"x": "The factors.", "y": "The factors.", "n": "How often."}


def test_fields():
    said = read_docstring(
        """Subtract.

        :param x: left
        :param int y: right,
            and more
        :type x: int
        :return: the difference
        """
    )
    assert said.description == "Subtract."
    assert said.arguments == {"x": "left", "y": "right,\nand more"}


def test_a_word_with_a_colon_and_nothing_below_begins_no_section():
    assert read_docstring("Say what you mean.\n\nNote:\nthis is text").description == (
        "Say what you mean.\n\nNote:\nthis is text"
    )
    assert read_docstring("x\nArgs:\n    a: first").arguments == {"a": "first"}


def test_no_docstring_says_nothing():
    assert (read_docstring(None).description, read_docstring("").arguments) == ("", {})
