"""Objects are finished when they are made: code sets an attribute of another object only where a table says why.

An assignment to an attribute of `self`, or of an object that the same function has just made, is not looked at.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"

ALLOWED = {
    "kb_engine.engine.chips": ("servers", "this module makes blocks"),
    "kb_engine.engine.build": (
        "on_response on_request on_tile_waited",
        "this module builds chips",
    ),
    "kb_engine.block": (
        (
            "t_ready t_start t_end index waits waits_since completed left refusal registers_at registers accumulators "
            "register_cut register_room claimed_by held operands_held sums_held"
        ),
        "a tile's token carries its times and buffers from block to block, and an open request counts its answers",
    ),
    "kb_engine.observe.traced_server": ("waits", "a token's waits end with its stage"),
    "kb_engine.fabric": (
        ("count under_way head_ps tail_ps served promised_ps awaited free_ps group read_alone_ps write_alone_ps"),
        "a transfer carries its times from link to link, and links and memories count what passes",
    ),
    "kb_engine.launch.streams": (
        "number called_ps made_ps start_ps end_ps recorded_by waiting",
        "a call of a stream carries its times, and an event knows who records it and who waits",
    ),
    "kb_engine.engine.streams.engine_streams": (
        "on_waited on_dispatch first_seq end_seq result made is_seen",
        "the streams of a chip listen to its blocks, and a call carries what it did",
    ),
    "kb_engine.fastforward.isolated": (
        "name count read_alone_ps write_alone_ps",
        "a footprint leaves and puts back what a command leaves on a PE",
    ),
    "kb_engine.language.accumulators": ("forgotten place", "a sum leaves the registers when somebody asks for it"),
    "kb_engine.language.deferred_calls": (
        "deferred_calls",
        "a program asks the language before it issues a command",
    ),
    "kb_engine.language.functions": ("__name__ __qualname__ __doc__", "a table of functions names what it makes"),
    "kb_engine.program.command_stream": (
        "operand_seq operand_ps turn_ps t_issued_ps t_submitted_ps",
        "a command in flight carries its times and their causes",
    ),
    "kb_engine.program.pe_port": ("deferred_calls", "a program tells its commands what stays in registers"),
    "kb_engine.program.coroutine": ("parent gr_context", "greenlets have such attributes"),
    "kb_engine.program.commands": (
        "t_call_ps t_issued_ps t_submitted_ps after after_seq operand_seq operand_ps",
        "a command in flight carries its times and their causes",
    ),
    "kb_engine.program.messages": (
        "on_commit on_message on_signal on_credit is_used",
        "a kernel that waits is called once by what it waits for",
    ),
    "kb_engine.sync": (
        "t_rung_ps t_taken_ps t_freed_ps t_credited_ps line_taken take_seq free_seq slot_nbytes line_opened",
        "a message carries its times and their causes, and its first message gives a channel its slots",
    ),
    "kb_engine.testing": (
        "servers is_forbidden name __class__",
        "the contract suite builds a line around one block, and watches it",
    ),
    "kb_components.pe": (
        "input input_cut panel output input_at output_at t_taken_ps t_decoded_ps t_fed_ps",
        "a tile's token and a command in flight carry their buffers",
    ),
    "kb_engine.fastforward.wing": ("on_feed isolation", "the wing hooks itself into the schedulers of a chip"),
    "kb_messages.lazy": ("name", "a door keeps the names that it has loaded"),
    "kb_plans.templates": ("buffer_at register_at", "operands get their buffers when all of them are known"),
    "kb_topology.text.yaml_reader": ("key", "the reader keeps its own stack"),
    "kb_dataexec.cli.info": (
        "start_ps end_ps written_nbytes read_nbytes low high",
        "the figures of a log are summed up over its chunks",
    ),
    "kb_dataexec.backends.torch_backend": ("fp32_precision", "torch has such switches"),
    "kb_engine.program.author.author_errors": ("where", "an error names the line of the author"),
    "kb_cli.benchmark.code.user_code": ("name", "the standard streams are put back into sys"),
    "kb_cli.terminal.dropped_signals": ("unraisablehook", "Python asks sys for the hook"),
    "kb_cli.golden.plugin": (
        "exitstatus kb_golden",
        "pytest takes its exit code from the session, and a report carries golden times from a worker",
    ),
    "kb_cli.run.saving.rows": ("where", "an error names the row of the shapes file"),
    "kb_cli.capsule.replay": ("where got needs fix", "an error names the capsule in place of a folder that is gone"),
    "kb_cli.face.kernel_run": ("where fix", "an error names the output of its kernel"),
    "kb_engine.engine.dropped_interrupts": ("unraisablehook", "Python asks sys for the hook"),
    "kb_engine.program.author.watchdog": ("unraisablehook", "Python asks sys for the hook"),
    "kb_triton.checking.functions_of_tl": ("__qualname__", "a rule has the name of its function in Python's errors"),
    "kb_triton.checking.refusals": ("error_message excerpt", "an error gets the words of Triton"),
    "kb_triton.checking.source": (
        "lineno end_lineno col_offset end_col_offset",
        "a frame for a traceback stands at a line of the author",
    ),
    "kb_triton.shims.module_names": ("__is_constexpr_function__", "a decorator marks a function of constants"),
    "kb_triton.jit.rewriting": (
        "value test body orelse iter ifs col_offset end_col_offset",
        "a tree of syntax is changed node by node, as ast.NodeTransformer does",
    ),
    "kb_triton.runtime.autotuner": ("got", "an error names the configuration that an argument comes from"),
}
"""By module or room: attributes, and the reason. `writeable` of a numpy array's flags is allowed everywhere."""


def modules() -> dict[str, Path]:
    """All modules by name."""
    roots = PACKAGES.glob("*/src")
    return {".".join(path.relative_to(root).parts)[:-3]: path for root in roots for path in root.rglob("*.py")}


def just_made(function: ast.AST) -> set[str]:
    """The names that *function* assigns a call of a class to."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name.lstrip("_")[:1].isupper() or name in ("__new__", "cls"):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def written(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """(line, object, attribute) of each assignment, in a function, to an attribute of another object."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        own = {"self", "cls"} | just_made(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                target = ast.unparse(node.value)
                if target not in own and not (node.attr == "writeable" and target.endswith(".flags")):
                    yield node.lineno, target, node.attr
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
                target = ast.unparse(node.args[0])
                if target not in own:
                    yield node.lineno, target, ast.unparse(node.args[1])


def entry_of(module: str) -> str | None:
    """The narrowest entry of the table for *module*."""
    entries = [each for each in ALLOWED if module == each or module.startswith(f"{each}.")]
    return max(entries, key=len, default=None)


def test_no_attribute_of_another_object_is_set_after_its_construction() -> None:
    wrong: set[str] = set()
    used: set[tuple[str | None, str]] = set()
    for module, path in sorted(modules().items()):
        entry = entry_of(module)
        allowed = ALLOWED[entry][0].split() if entry else []
        for line, target, attribute in written(ast.parse(path.read_text(encoding="utf-8"))):
            if attribute in allowed:
                used.add((entry, attribute))
            else:
                wrong.add(f"{module}:{line} sets {target}.{attribute}")
    assert wrong == set()
    unused = {(entry, each) for entry, (names, _) in ALLOWED.items() for each in names.split()} - used
    assert unused == set(), "take these out of the table"


def test_the_search_finds_assignments_of_all_kinds() -> None:
    text = """
def build(other, names):
    mine = Thing()
    mine.size = 1
    other.size, other.shape = 2, 3
    other.count += 1
    other.inner.name: str = ""
    setattr(other, "late", 4)
    other.flags.writeable = False
    for other.index in names:
        pass
"""
    found = {f"{target}.{attribute}" for _, target, attribute in written(ast.parse(text))}
    assert found == {"other.size", "other.shape", "other.count", "other.inner.name", "other.'late'", "other.index"}
    assert len(modules()) >= 200
