"""`python -m seatrial` is the command line."""

from seatrial.cli.main import main

main()
