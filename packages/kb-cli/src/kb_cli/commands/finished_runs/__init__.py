"""Subcommands of `kb` that read finished runs, one a module."""
