"""Sharing of links: transfers that meet on a link share its bandwidth, in closed form between arrivals and departures.

Design: docs/design/link-sharing.md
"""
