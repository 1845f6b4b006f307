"""The checks V1 to V12, a module each: what it tries, and what the verdicts mean."""
