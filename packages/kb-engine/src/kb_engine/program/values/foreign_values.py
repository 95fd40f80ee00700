"""Errors of programs that use values of others: a program uses the values that it has made itself.

A value lies in the TCM of its program, and its commands are those of its program. So another program can neither wait
for it nor have it computed, and nothing keeps its bytes when the program has ended.
"""

from __future__ import annotations

from kb_messages import KernelError


def foreign_value(got: str, line: str) -> KernelError:
    """The error of a program that uses a value of another program at *line*; *got* says what it uses."""
    fix = "tl.load the elements in this program: programs pass data to others through memory"
    return KernelError(line, got, "values of the program that uses them", fix)


def value_of_ended(line: str) -> KernelError:
    """The error of a program that uses, at *line*, a value whose program has ended."""
    return foreign_value("a value of a program that has ended, in this run or an earlier one", line)
