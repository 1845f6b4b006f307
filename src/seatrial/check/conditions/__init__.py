"""Other conditions for a verifier to run under."""
