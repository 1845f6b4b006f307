"""Is a verifier any good? The battery of checks, what each of them tries, and what is told of it."""
