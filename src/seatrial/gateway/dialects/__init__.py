"""The ways in which agents speak to models, one pure module each."""
