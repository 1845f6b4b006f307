"""Wrong answers made of accepted ones, by format, without knowing the task. The same ones in every run."""
