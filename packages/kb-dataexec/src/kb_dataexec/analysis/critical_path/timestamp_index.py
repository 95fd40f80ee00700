"""TimestampIndex: finds the event of a group at a given time, for many groups and times at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array


class Found(NamedTuple):
    """For each query, the number of the event found, -1 for none, and whether there was more than one."""

    at: Array
    is_tie: Array


class TimestampIndex:
    """An index of events by group and time. Event i has *group* i and *time* i, both int64 and not negative.

    `order` has the numbers of the events by group, then time, then number.
    """

    def __init__(self, group: Array, time: Array) -> None:
        self._span = int(time.max(initial=0)) + 2
        n_groups = int(group.max(initial=0)) + 1
        self._times: Array | None = None
        if n_groups * self._span >= 1 << 62:  # times become ranks, so that a group and a time fit in one number
            self._times = np.unique(time)
            self._span = 2 * len(self._times) + 2
        keys = self._keys(group, time)
        self.order = np.argsort(keys, kind="stable")
        self._sorted = keys[self.order]

    def first(self, group: Array, time: Array) -> Found:
        """Finds the first event of each *group* at each *time*."""
        keys = self._keys(group, time)
        low, high = np.searchsorted(self._sorted, keys), np.searchsorted(self._sorted, keys, side="right")
        at = np.full(len(keys), -1, np.int64)
        there = high > low
        at[there] = self.order[low[there]]
        return Found(at, high - low > 1)

    def last_before(self, group: Array, time: Array, place: Array, own: Array) -> Array:
        """Finds the last event of each *group* at each *time* whose *place* is before *own*; -1 for none."""
        keys = self._keys(group, time)
        at = np.searchsorted(self._sorted, keys, side="right") - 1
        found = np.full(len(keys), -1, np.int64)
        left = np.arange(len(keys))
        while len(left):
            left = left[at[left] >= 0]
            left = left[self._sorted[at[left]] == keys[left]]
            moment = self.order[at[left]]
            fits = place[moment] < own[left]
            found[left[fits]] = moment[fits]
            left = left[~fits]
            at[left] -= 1
        return found

    def latest_until(self, group: Array, time: Array) -> Array:
        """Finds the last event of each *group* up to each *time*, as an index in `order`; -1 for none."""
        at = np.searchsorted(self._sorted, self._keys(group, time), side="right") - 1
        is_there = (at >= 0) & (self._sorted[np.maximum(at, 0)] >= self._keys(group, np.zeros_like(time)))
        found: Array = np.where(is_there, at, -1)
        return found

    def _keys(self, group: Array, time: Array) -> Array:
        keys: Array
        if self._times is None:
            keys = group * self._span + np.clip(time, 0, self._span - 1)
        else:  # even between times, odd at one
            ranks = np.searchsorted(self._times, time) + np.searchsorted(self._times, time, side="right")
            keys = group * self._span + ranks
        return keys
