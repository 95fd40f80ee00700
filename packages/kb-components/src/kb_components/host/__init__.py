"""The host, and the block that takes its commands in a SIP.

Design: docs/design/launch-and-host.md.
"""
