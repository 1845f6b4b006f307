"""Reports as files that other programs read, each format in a module of its own."""
