"""Conversations in words of no dialect: each dialect is read into them and written from them, and so translated."""
