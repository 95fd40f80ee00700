"""LaunchCourses: the courses of the launches of a chip, by the PEs that they are on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from kb_engine.launch.foreseen_programs import Programs
from kb_engine.launch.known_launch import KnownLaunch
from kb_engine.launch.launch import LaunchResult
from kb_engine.launch.launch_course import LaunchCourse
from kb_engine.launch.watched_launch import WatchedLaunch

_MOST_COURSES: Final = 16
"""Courses that are kept. Source: assumed; one over 512 PEs takes 0.3 MB."""
_SHARE: Final = 8
"""With checks, the messages of one of so many launches whose course is known are sent, too."""


class LaunchCourses:
    """Keeps how messages of launches went, where all later ones on the same PEs go in the same way.

    A course is found when a second launch asks for it. With *checks*, some of these are sent, and compared.
    """

    def __init__(self, checks: bool) -> None:
        self._checks = checks
        self._n_asked = 0
        self._first: dict[Hashable, Callable[[], LaunchCourse | None]] = {}
        self._known: dict[Hashable, LaunchCourse | None] = {}

    def find(self, where: Hashable, programs: Programs) -> LaunchCourse | None:
        """The course of a launch of *programs* that is at *where*; None where it is to be found out, or checked."""
        find_course = self._first.get(where)
        if find_course is None or None in programs:
            return None
        if where not in self._known:
            course = self._known[where] = find_course()
            self._first[where] = lambda: course  # the launch need not be kept any more
        course = self._known[where]
        if course is None:
            return None
        self._n_asked += 1
        return None if self._checks and self._n_asked % _SHARE == 1 else course

    def ended(self, launch: WatchedLaunch, result: LaunchResult, found: KnownLaunch) -> bool:
        """*launch*, of which *found* is known, has ended with *result*. Returns whether its course is as expected."""
        where, find_course = launch.key.where, partial(launch.course, result, found.told)
        known = self._known.get(where)
        if where not in self._first:
            if len(self._first) >= _MOST_COURSES:
                self._first.clear()
                self._known.clear()
            self._first[where] = find_course
        elif known is not None and self._checks:
            course = find_course()
            return course is not None and known.downwards == course.downwards
        return True
