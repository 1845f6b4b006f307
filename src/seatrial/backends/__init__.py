"""Kinds of sandboxes by name: each one put together with its images, its doctor's steps and its way of tidying up."""
