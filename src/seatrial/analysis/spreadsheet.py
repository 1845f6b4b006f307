"""What a spreadsheet would do with a text: run it, if it looks like a formula."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0")
"""A spreadsheet takes a cell that begins with one of these for a formula, and runs it; some leave out a zero byte."""
