"""The same pages as files beside each other, which open without a server and without a network."""
