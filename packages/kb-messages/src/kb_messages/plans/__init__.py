"""Plans of commands: loop orders, stages, tiles, lifetimes of buffers, and plans as JSON."""
