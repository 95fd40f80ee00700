"""The subcommands of `kb`, one module each."""
