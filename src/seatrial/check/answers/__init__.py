"""Accepted answers and what can be made of them: other forms, wrong ones, hostile ones."""
