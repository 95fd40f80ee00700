"""The development pipeline. `nox` runs what CI runs: lint, every package's tests alone, the wheels together."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "test", "integration"]

os.environ["UV_PYTHON_DOWNLOADS"] = "never"  # an interpreter that is not installed is skipped, never fetched

PACKAGES = sorted(path.parent.name for path in Path("packages").glob("*/pyproject.toml"))
FOLDERS = [f"packages/{package}" for package in PACKAGES]
EDITABLE = [arg for folder in FOLDERS for arg in ("-e", folder)]
THIRD_PARTY = "tests_integration/third_party/acme-blocks"
PINS = Path("constraints.txt")
PYTHONS = ["3.11", "3.12", "3.13"]
PARALLEL = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")  # a later `-n 0` after `--` turns it off
QUICK_PACKAGES = {"kb-messages", "kb-plans"}  # they end before workers have started
DIGEST_RUN = ["run", "gemm", "-p", "M=256", "-p", "N=256", "-p", "K=256", "-p", "dtype=f16", "--json"]


def install(session: nox.Session, *args: str) -> None:
    """Install under the checked-in pins; build backends obey them too."""
    session.install("-c", str(PINS), "-b", str(PINS), *args)


def uv(session: nox.Session, *args: str) -> None:
    """Run the uv that nox found: the session's environment has none of its own."""
    session.run("uv", *args, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff's rules and format, mypy strict over all packages and examples of READMEs, the words of docstrings."""
    install(session, "--group", "lint", *EDITABLE)
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy", "--num-workers", "auto")  # two take two fifths of the time that one takes
    session.run("python", "tests_integration/readme/readme_types.py")
    session.run("python", "tests_integration/words/docstring_words.py")


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def test(session: nox.Session, package: str) -> None:
    """One package's tests, beside nothing but what that package declares."""
    install(session, "--group", "test", "-e", f"packages/{package}")
    workers = () if package in QUICK_PACKAGES else PARALLEL
    session.run("pytest", *workers, f"packages/{package}/tests", *session.posargs)


@nox.session
def integration(session: nox.Session) -> None:
    """The tests of all packages together, against built wheels, not the checkout's sources."""
    wheels = build_wheels(session)
    third_party = build_wheels(session, "third_party", [THIRD_PARTY])
    install(session, "--group", "test", "--group", "notebook", "--no-sources", *wheels, *third_party)
    uv(session, "pip", "check")
    env = {"KB_PLANS_PYTHON": str(python_with_plans_alone(session, wheels))}
    session.run("pytest", *PARALLEL, "tests_integration", *session.posargs, env=env)


def build_wheels(session: nox.Session, name: str = "wheels", folders: Sequence[str] = FOLDERS) -> list[str]:
    out = Path(session.create_tmp()) / name
    shutil.rmtree(out, ignore_errors=True)
    for folder in folders:
        uv(session, "build", "-q", "--wheel", "-b", str(PINS), "-o", str(out), folder)
    return sorted(map(str, out.glob("*.whl")))


def python_with_plans_alone(session: nox.Session, wheels: list[str]) -> Path:
    """An interpreter that has kb-plans, and of the other wheels what it asks for."""
    tmp = Path(session.create_tmp()).resolve()
    venv, ours = tmp / "plans", tmp / "wheels.txt"
    found = {Path(wheel).name.partition("-")[0].replace("_", "-"): Path(wheel).resolve() for wheel in wheels}
    ours.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in found.items()))
    uv(session, "venv", "-q", "--clear", "--python", str(Path(session.bin) / "python"), str(venv))
    pins = ["-c", str(PINS), "-c", str(ours)]
    uv(session, "pip", "install", "-q", "--no-sources", "--python", str(venv), *pins, str(found["kb-plans"]))
    return venv / "bin" / "python"


@nox.session(default=False)
def determinism(session: nox.Session) -> None:
    """One op log, to the last bit, from every installed Python."""
    wheels = build_wheels(session)
    digests: dict[str, str] = {}
    for version in PYTHONS:
        python = find_python(version)
        if python is None:
            session.warn(f"Python {version} is not installed: skipped")
            continue
        venv = Path(session.create_tmp()).resolve() / version
        uv(session, "venv", "-q", "--clear", "--python", python, str(venv))
        uv(session, "pip", "install", "-q", "--no-sources", "--python", str(venv), "-c", str(PINS), *wheels)
        with session.chdir(venv):  # an empty place, where no earlier result can be found
            report = session.run(str(venv / "bin" / "kb"), *DIGEST_RUN, silent=True, external=True)
        digests[version] = json.loads(str(report))["log_digest"]
        session.log(f"Python {version}: {digests[version]}")
    if len(set(digests.values())) != 1:
        session.error(f"op logs differ: {digests}")


def find_python(version: str) -> str | None:
    """An interpreter that runs: version managers leave shims on the path that do not."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(map(str, pyenv.glob(f"versions/{version}*/bin/python{version}")))
    for python in [f"python{version}", *reversed(found)]:
        probe = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
        try:
            answer = subprocess.run(probe, capture_output=True, text=True, check=True).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            continue
        if answer[0] == version:
            return answer[1]
    return None


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Ten thousand damaged topologies and capsules, or the number after `--`: each runs or gets a sentence."""
    install(session, "--group", "test", *EDITABLE)
    env = {"KB_FUZZ_MUTANTS": session.posargs[0] if session.posargs else "10000"}
    suites = ["tests_integration/test_topology_fuzz.py", "packages/kb-cli/tests/capsule"]
    session.run("pytest", *PARALLEL, *suites, "-o", "timeout=600", env=env)


@nox.session(default=False)
def contention(session: nox.Session) -> None:
    """The fabric against bursts in turn: ten thousand random chips, or the number after `--`; `-- --networks` too."""
    install(session, *EDITABLE)
    session.run("python", "tests_integration/contention/contention.py", *session.posargs)


@nox.session(default=False)
def credits(session: nox.Session) -> None:  # noqa: A001
    """Full buffers against a simulation of flits: three thousand random chips, or the number after `--`; 3 minutes."""
    install(session, *EDITABLE)
    session.run("python", "tests_integration/credits/credits.py", *session.posargs)


@nox.session(default=False)
def attack(session: nox.Session) -> None:
    """Damaged and hostile files, kills, a full disk: how many were tried, how many handled badly; half an hour."""
    install(session, *EDITABLE)
    session.run("python", "tests_integration/attack/attack.py", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Tutorial, sweeps and shapes of the docs print what is quoted, and draw the same pictures; a minute."""
    install(session, "--group", "test", *EDITABLE)
    suites = [f"tests_integration/test_docs_{name}.py" for name in ("output", "sweeps", "tutorial")]
    session.run("pytest", *suites, *session.posargs, env={"KB_ALL_DOCS": "1"})


def find_browser(session: nox.Session) -> str:
    """The path of a browser; empty, with a warning, where there is none, which is an error where CI is set."""
    finder = ["python", "tests_browser/find_browser.py", str(Path(session.create_tmp()).resolve())]
    found = str(session.run(*finder, silent=True, success_codes=[0, 1])).strip()
    if Path(found).is_file():
        return found
    (session.error if os.environ.get("CI") else session.warn)(found)
    return ""


@nox.session(default=False)
def site(session: nox.Session) -> None:
    """The documentation as a site, into build/site; runs every command of its pages. `-- --no-gallery` runs none."""
    install(session, "--group", "test", "--group", "browser", "--group", "docs", "--group", "notebook", *EDITABLE)
    found = find_browser(session)
    options = ["--browser", found] if found else []
    session.run("python", "docs_site/build_site.py", *options, *session.posargs)
    made = "all" if found else "without screens"
    env = {"KB_SITE_PARTS": "pages" if "--no-gallery" in session.posargs else made}
    session.run("pytest", *PARALLEL, "tests_site", "-o", "timeout=600", env=env)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """The simulator's own speed: every script in benchmarks/speed, or those named after `--`."""
    install(session, *EDITABLE)
    for script in session.posargs or sorted(map(str, Path("benchmarks/speed").glob("*.py"))):
        session.run("python", script)


@nox.session(default=False)
def sweeps(session: nox.Session) -> None:
    """A thousand points on processes, then on a Dask cluster of which a worker is killed: one table; minutes."""
    install(session, *EDITABLE, "-e", "packages/kb-cli[dask]")
    session.run("python", "benchmarks/speed/sweep.py", "--dask", *session.posargs)


@nox.session(default=False)
def neighbours(session: nox.Session) -> None:
    """A PE that does nothing changes no time: all bundled benchmarks and chips, 750 random chips; minutes."""
    install(session, *EDITABLE)
    session.run("python", "benchmarks/validation/neighbours.py", *session.posargs)


@nox.session(default=False)
def roofs(session: nox.Session) -> None:
    """No latency is below a roof: all bundled benchmarks and chips, 200 random chips; options after `--`; minutes."""
    install(session, *EDITABLE)
    session.run("python", "benchmarks/validation/roofs.py", *session.posargs)


@nox.session(default=False)
def levers(session: nox.Session) -> None:
    """Levers are as the last sentence tells: all bundled benchmarks and chips, 200 random chips; options after `--`."""
    install(session, *EDITABLE)
    session.run("python", "benchmarks/validation/lever_laws.py", *session.posargs)


@nox.session(default=False)
def folding(session: nox.Session) -> None:
    """Runs that skip tiles equal runs of every event: 3,000 random commands on random chips; half an hour."""
    install(session, *EDITABLE)
    session.run("python", "benchmarks/validation/folding.py", *session.posargs)


@nox.session(default=False)
def devices(session: nox.Session) -> None:
    """Every bundled benchmark on every bundled chip, verified, or on the chips named after `--`; many minutes."""
    install(session, *EDITABLE)
    session.run("python", "benchmarks/validation/devices.py", *session.posargs)


@nox.session(default=False)
def kernels(session: nox.Session) -> None:
    """The bundled kernels at shapes of published models, in every type, on one cube and on 16; some minutes."""
    install(session, *EDITABLE)
    session.run("python", "benchmarks/validation/kernels.py", *session.posargs)


@nox.session(default=False)
def programs(session: nox.Session) -> None:
    """Random programs of the kernel language, thousands or the number after `--`; `-- --seed N` repeats one."""
    install(session, *EDITABLE)
    session.run("python", "tests_integration/language/language_fuzz.py", *session.posargs)
    session.run("python", "tests_integration/language/language_repeats.py", *session.posargs)
    session.run("python", "tests_integration/language/language_triton.py", *session.posargs)


@nox.session(default=False)
def program_folding(session: nox.Session) -> None:
    """Runs that skip work equal runs of every event: 10,000 random runs, or `-- --cases N`; half an hour on 2 cores."""
    install(session, *EDITABLE)
    session.run("python", "benchmarks/validation/program_folding.py", *session.posargs)


@nox.session(default=False)
def closed(session: nox.Session) -> None:
    """Random kernels with isolated commands equal runs of every event: `nox -s closed -- 10000`."""
    install(session, *EDITABLE)
    session.run("python", "tests_integration/isolated/isolated_fuzz.py", *session.posargs)


@nox.session(default=False)
def without_fastforward(session: nox.Session) -> None:
    """All tests without the mark `speed` pass where kb_engine.fastforward cannot be imported; ten minutes."""
    install(session, "--group", "test", *EDITABLE, "-e", THIRD_PARTY)
    suites = [*(f"{folder}/tests" for folder in FOLDERS), "tests_integration"]
    for suite in suites:
        session.run("pytest", *PARALLEL, "-p", "without_fastforward", suite, *session.posargs)


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """Single changes of small logs, and of the source of kb-plans, are noticed or equivalent; half an hour."""
    install(session, "--group", "test", *EDITABLE)
    session.run("python", "tests_integration/mutation/mutation_sweep.py", *session.posargs)
    session.run("python", "tests_integration/mutation/mutation_source.py")
    suites = ["packages/kb-dataexec/tests/test_mutations.py", "tests_integration/test_cli_mutations.py"]
    session.run("pytest", *PARALLEL, *suites, env={"KB_ALL_MUTANTS": "1"})


@nox.session(default=False)
def cases(session: nox.Session) -> None:
    """Every case and random example of which the tests try some, of all packages and of integration."""
    install(session, "--group", "test", *EDITABLE)
    files = sorted(Path("tests_integration").glob("test_*.py"))
    sampling = [str(file) for file in files if "sampled_cases" in file.read_text(encoding="utf-8")]
    suites = [*(f"{folder}/tests" for folder in FOLDERS), *sampling]
    session.run("pytest", *PARALLEL, *suites, *session.posargs, env={"KB_ALL_CASES": "1"})


@nox.session(default=False)
def messages(session: nox.Session) -> None:
    """Every test of messages and signals in full, 512 PEs too, and 1,000 random programs, or the number after `--`."""
    install(session, "--group", "test", *EDITABLE)
    found = (Path("tests_integration").glob(f"test_{name}*.py") for name in ("messages", "deadlocks"))
    suites = sorted(str(file) for files in found for file in files)
    session.run("pytest", *PARALLEL, *suites, "-o", "timeout=1800", env={"KB_ALL_CASES": "1"})
    session.run("python", "tests_integration/messages/messages_fuzz.py", *session.posargs)


@nox.session(default=False)
def extras(session: nox.Session) -> None:
    """What is too large for every session: torch, Parquet by DuckDB, Dask, ONNX, Perfetto's schema."""
    install(
        session,
        "--group",
        "test",
        "--group",
        "extras",
        *EDITABLE,
        "-e",
        "packages/kb-dataexec[torch,parquet]",
        "-e",
        "packages/kb-triton[torch]",
        "-e",
        "packages/kb-cli[dask,parquet]",
        "-e",
        "packages/kb-models[onnx]",
    )
    session.run("pytest", "tests_extras", *session.posargs)


@nox.session(default=False)
def triton(session: nox.Session) -> None:
    """The examples of Triton kernels in every type, on one cube and on 16, or those named after `--`; minutes."""
    install(session, *EDITABLE)
    for script in session.posargs or sorted(map(str, Path("benchmarks/triton").glob("*.py"))):
        for topology in ("one_cube", "one_sip"):
            session.run("kb", "exec", "--out", session.create_tmp(), "--topology", topology, script)


@nox.session(default=False)
def interpreter(session: nox.Session) -> None:
    """Every function of `tl` beside Triton's own interpreter, and random kernels beside its compiler; some minutes."""
    install(session, "--group", "interpreter", *EDITABLE, "-e", "packages/kb-triton[torch]")
    session.run("python", "benchmarks/validation/triton_interpreter/compare_interpreter.py", *session.posargs)
    session.run("python", "benchmarks/validation/triton_interpreter/scalars.py", "--kernels", "2000", "--seed", "1")
    session.run("python", "benchmarks/validation/triton_interpreter/compare_refusals.py")


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """What people look at can be read, in a browser: web, reports, Perfetto, site; pictures in build/pictures."""
    groups = [arg for group in ("test", "browser", "docs") for arg in ("--group", group)]
    install(session, *groups, *EDITABLE, "-e", "packages/kb-cli[perfetto]")
    found = find_browser(session)
    if not found:
        session.skip("no browser")
    pictures = Path("build/pictures").resolve()
    shutil.rmtree(pictures, ignore_errors=True)
    env = {"KB_BROWSER": found, "KB_PICTURES": str(pictures)}
    try:
        session.run("pytest", "tests_browser", *session.posargs, env=env)
    finally:  # those of a test that failed are looked at first
        session.log(f"pictures: {pictures}")


@nox.session(default=False)
def lowest(session: nox.Session) -> None:
    """The packages' tests with the oldest versions they say they work with; no pins, which are the newest."""
    session.install("--resolution", "lowest-direct", "--group", "test", *EDITABLE)
    session.run("pytest", *PARALLEL, "packages", *session.posargs)


@nox.session(default=False)
def pins(session: nox.Session) -> None:
    """Resolve everything anew, for every platform and Python from 3.11 on, and write constraints.txt."""
    groups = [
        arg
        for group in ("pipeline", "test", "notebook", "lint", "build", "browser", "docs", "extras")
        for arg in ("--group", group)
    ]
    sources = [f"packages/{package}/pyproject.toml" for package in PACKAGES]
    out = Path(session.create_tmp()) / "resolved.txt"
    options = ["--universal", "--python-version", PYTHONS[0], "--fork-strategy", "fewest", "--upgrade"]
    uv(session, "pip", "compile", "-q", *options, *groups, *sources, "-o", str(out))
    found = re.findall(r"^([\w.-]+)==([\w.+!]+)", out.read_text(), re.MULTILINE)  # no comments, markers or paths
    names = [name for name, _ in found]
    if len(set(names)) != len(names):
        session.error("a name has two versions: constrain it in pyproject.toml")
    header = "# Exact versions for every install here and in CI, without addresses. Written by `nox -s pins`.\n"
    PINS.write_text(header + "".join(f"{name}=={version}\n" for name, version in sorted(found)))
