"""The plugin of pytest that kb-cli brings: the fixture `kb_run`, the marker `kb_golden`, and `--kb-update`.

Every pytest on a machine with kb-cli imports this module, so the simulator is imported when a test asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb_cli.golden.golden_runs import GoldenRuns

_pytest: Any = sys.modules["pytest"]  # pytest imports this module; kb-cli does not depend on it
_RUNS: Any = _pytest.StashKey()
_SAID: Any = _pytest.StashKey()
_RUNS_OF_TEST: Any = _pytest.StashKey()
_REPORT: Any = _pytest.StashKey()
_UPDATED: Any = _pytest.StashKey()
_MARKER = "kb_golden(within=0.02): fail when a run of kb_run takes more than the golden time, by this share of it"


def pytest_addoption(parser: Any) -> None:
    """Adds the option of the plugin."""
    group = parser.getgroup("kb", "kernels on simulated chips")
    group.addoption("--kb-update", action="store_true", help="Write the times of this run as golden times.")


def pytest_configure(config: Any) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", _MARKER)
    config.pluginmanager.register(_Reports(config), "kb-golden-reports")


def _runs_of_test(request: Any, tmp_path_factory: Any) -> GoldenRuns:
    """Runs a kernel on a simulated chip, as `kernbench.run` does, and returns its KernelRun.

    With the marker `kb_golden`, the latency of each run is compared with its golden time.
    """
    from kb_cli.golden.golden_runs import GoldenRuns
    from kb_messages import BenchmarkError

    marker = request.node.get_closest_marker("kb_golden")
    within = None if marker is None else _within(marker, request.node.nodeid)
    path = Path(request.node.path)
    name = f"{path.name}::{request.node.nodeid.partition('::')[2]}"
    place = tmp_path_factory.mktemp("kb-runs")
    try:
        runs = GoldenRuns(path.parent, name, within, request.config.option.kb_update, place)
    except BenchmarkError as error:
        _pytest.fail(str(error), pytrace=False)
    request.node.stash[_RUNS_OF_TEST] = runs
    return runs


kb_run = _pytest.fixture(name="kb_run")(_runs_of_test)


@_pytest.hookimpl(trylast=True)  # type: ignore[untyped-decorator]
def pytest_runtest_call(item: Any) -> None:
    """Fails a passed test that has the marker and ran nothing that could be compared."""
    runs = getattr(item, "funcargs", {}).get("kb_run")
    if item.get_closest_marker("kb_golden") is not None and (runs is None or not runs.count):
        said = f"{item.nodeid}: got kb_golden and no run of kb_run, needs one, because only these runs are compared"
        _pytest.fail(said, pytrace=False)


@_pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator]
def pytest_runtest_makereport(item: Any) -> Iterator[None]:
    """Keeps the report of a test, which says whether it passed: a test may fail without an error of its function.

    The last report of a test takes its new golden times with it, also from a worker of pytest-xdist.
    """
    outcome: Any = yield
    report = outcome.get_result()
    if report.when != "teardown":
        item.stash[_REPORT] = report
    elif updated := item.stash.get(_UPDATED, None):
        report.kb_golden = (str(Path(item.path).parent), updated)


@_pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator]
def pytest_runtest_teardown(item: Any) -> Iterator[None]:
    """Takes the new golden times of a test that passed when all of its fixtures have ended without an error."""
    outcome: Any = yield
    runs, report = item.stash.get(_RUNS_OF_TEST, None), item.stash.get(_REPORT, None)
    if outcome.excinfo is None and runs is not None and report.when == "call" and report.passed:
        try:
            updated = runs.updated()
        except OSError as error:
            said = f"{item.nodeid}: got {error}, needs a folder kb-golden that can be written beside the test"
            outcome.force_exception(_pytest.fail.Exception(said, pytrace=False))
            return
        item.stash[_UPDATED] = updated


def _within(marker: Any, test: str) -> float:
    within = marker.kwargs.get("within", 0.02)
    if marker.args or set(marker.kwargs) - {"within"} or not isinstance(within, (int, float)) or within < 0:
        said = f"{test}: got kb_golden with other arguments, needs within=SHARE, such as 0.02"
        _pytest.fail(said, pytrace=False)  # the mistake is the test's, and no line of the plugin explains it
    return float(within)


class _Reports:
    """Takes new golden times, by folder and run, from reports of tests. Workers of pytest-xdist send each report."""

    def __init__(self, config: Any) -> None:
        self._updated: dict[str, dict[str, Any]] = config.stash.setdefault(_RUNS, {})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Takes the golden times of a report."""
        if hasattr(report, "kb_golden"):
            folder, runs = report.kb_golden
            self._updated.setdefault(folder, {}).update(runs)


@_pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
def pytest_sessionfinish(session: Any) -> None:
    """Writes the new golden times. A worker of pytest-xdist leaves that to the first process.

    For a file that cannot be written, pytest prints the error and ends as if a test had failed.
    """
    if hasattr(session.config, "workeroutput"):
        return
    said: list[str] = session.config.stash.setdefault(_SAID, [])
    for folder, runs in session.config.stash[_RUNS].items():
        from kb_cli.golden.golden_runs import write_updated
        from kb_messages import BenchmarkError

        try:
            said += write_updated(Path(folder), runs)
        except (OSError, BenchmarkError) as error:
            said.append(f"error: golden times of {folder} are not written: {error}")
            session.exitstatus = _pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Prints which golden times are new."""
    for line in config.stash.get(_SAID, ()):
        terminalreporter.write_line(line)
