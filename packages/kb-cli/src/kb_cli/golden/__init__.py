"""The pytest plugin: simulated times of tests against golden times in a reviewed file."""
