"""Machines that break while honest trials run: no honest trial may be scored 0, and no record may be lost.

`places.py` has small machines (disks, control groups), `crowds.py` has honest tasks and those who spoil them.
"""
