"""For the tests of whoever builds on Seatrial: fakes with behaviour, and the suite every sandbox backend must pass.

Import from the modules: `fake`, `null`, and `contract` (which needs pytest).
"""
