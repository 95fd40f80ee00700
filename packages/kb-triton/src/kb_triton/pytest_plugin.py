"""The pytest plugin: `pytest -p kb_triton` runs tests of Triton kernels on a simulated chip."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any, Final

from msgspec.structs import replace

from kb_messages import KbError
from kb_triton.host import Device, Options, current, options_of, use
from kb_triton.host.options import most_configurations
from kb_triton.shims import install, is_installed, shim_cuda, uninstall

_SHIM: Final = ExitStack()


def pytest_addoption(parser: Any) -> None:
    """Adds the options of the plugin. Without an option, its environment variable counts."""
    group = parser.getgroup("kb_triton", "Triton kernels on a simulated chip")
    group.addoption("--kb-topology", metavar="CHIP", help="A bundled chip or a YAML file (KB_TOPOLOGY; one_cube).")
    group.addoption("--kb-issue", choices=["blocking", "scoreboard", "decoupled"], help="How PE_CPUs issue (KB_ISSUE).")
    group.addoption("--kb-autotune", metavar="all|first|N", help="Configurations to try (KB_AUTOTUNE; all).")
    group.addoption(
        "--kb-lenient", action="store_true", help="Run kernels that Triton's compiler refuses (KB_LENIENT)."
    )
    group.addoption("--kb-pretend", choices=["cuda"], help="Answer host code as a CUDA device would.")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Installs the modules before a conftest.py is imported. A wrong option ends pytest with a sentence."""
    _set_up(early_config.known_args_namespace)


def pytest_configure(config: Any) -> None:
    """Installs the modules before a test file is imported, where a conftest.py names the plugin."""
    _set_up(config.option)


def _set_up(given: Any) -> None:
    if is_installed():
        return
    try:
        use(Device.of(_options(given)))
        install()
        if given.kb_pretend:
            _SHIM.enter_context(shim_cuda())
    except KbError as error:
        usage: Any = sys.modules["pytest"]
        raise usage.UsageError(str(error)) from None


def _options(given: Any) -> Options:
    found = options_of()
    if given.kb_topology:
        found = replace(found, topology=given.kb_topology)
    if given.kb_issue:
        found = replace(found, issue=given.kb_issue)
    if given.kb_autotune:
        found = replace(found, autotune=most_configurations("--kb-autotune", given.kb_autotune))
    if given.kb_lenient:
        found = replace(found, lenient=True)
    return found


def pytest_unconfigure(config: Any) -> None:
    """Uninstalls the modules."""
    _SHIM.close()
    uninstall()
    use(None)


def pytest_report_header(config: Any) -> str:
    """Returns the line of the report with the chip on which the kernels run."""
    return f"kb_triton: {current().topology.name}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Writes the number of launches and their simulated time."""
    device = current()
    if device.n_launches:
        took = device.elapsed_ps / 1e6
        terminalreporter.write_line(f"kb_triton: {device.n_launches} launches, {took:.3f} us of simulated time")
