"""Whole models: each op of tiny ones is verified, blocks are alike, and their weights are the parameters."""

from functools import cache
from typing import Any, Final

import pytest
from running import chip, two_sips
from sampled_cases import sampled

import kb_models
from kb_messages import BenchmarkError, DType
from kb_models import Builder, ModelParams
from kb_models.layout import Mesh, parse_map
from kb_models.models.registry import architecture_of
from kernbench import KernelRun

LLAMA: Final[dict[str, Any]] = {
    "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 160, "vocab_size": 250,
}  # fmt: skip
CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "llama": {"model_type": "llama", **LLAMA},
    "qwen2": {"model_type": "qwen2", **LLAMA},
    "mixtral": {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, **LLAMA},
    "gpt2": {"model_type": "gpt2", "n_embd": 48, "n_layer": 4, "n_head": 3, "n_positions": 64, "vocab_size": 101},
    "bert": {
        "model_type": "bert", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 128, "max_position_embeddings": 64, "type_vocab_size": 2, "vocab_size": 99,
    },
}  # fmt: skip
DECODE: Final = {"phase": "decode", "batch": 3, "context": 20}
PREFILL: Final = {"phase": "prefill", "batch": 2, "tokens": 11}
RUNS: Final = [
    (name, phase) for name in CONFIGS for phase in ("decode", "prefill") if (name, phase) != ("bert", "decode")
]


@cache
def ran(name: str, phase: str, layers: int) -> KernelRun:
    return kb_models.run(
        CONFIGS[name],
        chip="one_cube",
        layers=layers,
        **(DECODE if phase == "decode" else PREFILL),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("name", "phase"), sampled(RUNS, 5))
def test_every_op_is_verified(name: str, phase: str) -> None:
    found = ran(name, phase, 2)
    assert found.verified
    assert found.result.model is not None
    assert found.result.model.items == (3 if phase == "decode" else 22)


@pytest.mark.parametrize(("name", "phase"), sampled(RUNS, 5))
def test_a_second_block_takes_the_same_picoseconds(name: str, phase: str) -> None:
    """So one block stands for all. Routing differs from block to block, and with it the time of experts."""
    ops = ran(name, phase, 2).result.workload_ops
    times: dict[str, list[tuple[int, int]]] = {}
    for op in ops or []:
        if op.part.startswith("block") and "experts" not in op.name:
            times.setdefault(op.name.partition(".")[2], []).append((op.latency_ps, op.repeats))
    assert times
    assert {op: each for op, each in times.items() if len(each) != 2 or len(set(each)) != 1} == {}


def test_one_block_and_three_give_the_kernels_of_one_model() -> None:
    found = [ran("llama", "decode", layers).result.model for layers in (1, 3)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].kernels_ps == found[1].kernels_ps


@pytest.mark.parametrize(("name", "phase"), RUNS)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_weights_of_all_ops_are_the_parameters(name: str, phase: str, layers: int) -> None:
    """GPT-2's head is its table of words, which the embedding has too."""
    model = architecture_of(CONFIGS[name], name)
    m = Builder(Mesh.of(chip("one_cube"), {}), DType.F16)
    model.build(m, ModelParams(layers=layers, **(DECODE if phase == "decode" else PREFILL)))  # type: ignore[arg-type]
    weights = {value.name: (value, op.repeats) for op in m.ops for value in op.reads if value.purpose == "weight"}
    counted = sum(repeats * value.nbytes // value.dtype.nbytes for value, repeats in weights.values())
    assert counted == model.parameters + (101 * 48 if name == "gpt2" else 0)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_a_layout_over_cubes_and_sips_is_verified(phase: str) -> None:
    """A sequence or two for each SIP, two heads and a key head for each of its two cubes."""
    sizes = {"phase": phase, "batch": 3 if phase == "decode" else 2, "context": 9, "tokens": 3}
    found = kb_models.run(CONFIGS["llama"], chip=two_sips(), **sizes)  # type: ignore[arg-type]
    assert found.verified
    names = [op.name for op in found.result.workload_ops or []]
    assert {"block0.o.all_reduce", "block0.down.all_reduce"} <= set(names)


@pytest.mark.parametrize("name", sampled(["llama", "mixtral", "gpt2", "bert"], 2))
def test_cubes_share_the_rows_between_products_of_a_prefill(name: str) -> None:
    """11 tokens over the 2 cubes of each SIP. A cube normalizes its own rows, which are gathered for products."""
    found = kb_models.run(CONFIGS[name], chip=two_sips(), phase="prefill", batch=2, tokens=11)
    assert found.verified
    ops = {op.name for op in found.result.workload_ops or []}
    assert {"block0.norm1.all_gather", "block0.o.reduce_scatter"} <= ops
    assert not {"block0.o.all_reduce", "block0.down.all_reduce"} & ops


@pytest.mark.parametrize(
    ("name", "parameters", "text"),
    [
        ("bert", {"phase": "decode"}, "model: phase: got decode, needs prefill"),
        ("llama", {"phase": "train"}, "phase: got train, needs decode or prefill; training is not built: a run is"),
        ("llama", {"phase": "continuous"}, "needs decode or prefill; continuous batching is not built: run"),
        ("mixtral", {"weights": "int8"}, "model: weights: got int8, needs same; its ops have no kernels for smaller"),
        ("llama", {"layers": 7}, "model: layers: got 7, needs at most 6, the blocks of the model"),
        ("gpt2", {"context": 65}, "model: context: got 65, needs at most 64, the positions that the model has learned"),
        ("bert", {"tokens": 65}, "model: tokens: got 65, needs at most 64, the positions that the model has learned"),
        ("llama", {"map": "pipeline=sip"}, "pipeline parallelism is not built: all cubes share each block"),
        ("llama", {"map": "batch=cube", "chip": "one_sip"}, "map: got batch in 16 parts, needs at most as many parts"),
        ("llama", {"op": "block0.dwn"}, "model: op 'block0.dwn': got an unknown op, .*mean 'block0.down'"),
        ("llama", {"dtype": "i8"}, "-p dtype: got 'i8', needs one of f32, f16, bf16"),
    ],
)  # fmt: skip
def test_what_is_not_built_is_refused(name: str, parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(BenchmarkError, match=text):
        kb_models.run(CONFIGS[name], **{"chip": "one_cube", **parameters})


def test_defaults_are_those_of_the_model() -> None:
    params = kb_models.model(CONFIGS["gpt2"]).Params()
    assert (params.phase, params.context, params.tokens) == ("decode", 64, 64)
    params = kb_models.model(CONFIGS["bert"]).Params()
    assert (params.phase, params.tokens) == ("prefill", 64)
    params = kb_models.model(CONFIGS["llama"]).Params()
    assert (params.phase, params.context, params.tokens) == ("decode", 4096, 512)


@pytest.mark.parametrize("op", ["block1.attention", "block0.down", "head.words"])
def test_an_op_alone_is_verified(op: str) -> None:
    found = kb_models.run(CONFIGS["llama"], chip="one_cube", layers=2, op=op, **DECODE)  # type: ignore[arg-type]
    assert found.verified
    assert op in [each.name for each in found.result.workload_ops or []]


def test_experts_alone_bring_their_router() -> None:
    found = kb_models.run(CONFIGS["mixtral"], chip="one_cube", op="block0.experts", **DECODE)  # type: ignore[arg-type]
    assert found.verified
    assert len(found.result.workload_ops or []) == 2


def test_a_layout_that_is_named_is_kept_as_it_is() -> None:
    assert parse_map("none") == {}


def test_the_floor_of_a_mixture_has_the_experts_that_rows_choose() -> None:
    """By hand: of 4 experts, 3 rows that choose 2 miss one with (1 - 2 / 4)^3 = 1 / 8."""
    planned = kb_models.model(CONFIGS["mixtral"])()
    planned.prepare(planned.Params(**DECODE), chip("one_cube"), 0)
    experts = next(op for op in planned._made if op.kind == "experts")
    assert experts.floor_nbytes == 4 * 3 * 64 * 160 * 2 * 7 // 8
    assert experts.nbytes > experts.floor_nbytes
