"""Models: configurations, and the builders that make ops of them."""
