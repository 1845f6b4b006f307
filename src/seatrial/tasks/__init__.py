"""Task folders: finding, reading, digesting and linting them."""
