"""Homes for programs that were written for other libraries; each is asked for by importing it."""
