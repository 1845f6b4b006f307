"""The reviewers' desk: what they are shown before and after a verdict, and what they say."""
