"""The host, and what takes its commands in a SIP."""
