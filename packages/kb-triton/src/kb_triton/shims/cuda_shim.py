"""`--pretend cuda`: host code written for CUDA devices alone gets tensors on the CPU, and facts of the chip."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from kb_messages import KbError
from kb_triton.host import current
from kb_triton.jit import CompiledKernel
from kb_triton.runtime import DRIVER


class _Event:
    """A moment in simulated time, in place of `torch.cuda.Event`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._at_ps = 0

    def record(self, *arguments: Any) -> None:
        """Makes now the moment."""
        self._at_ps = current().elapsed_ps

    def elapsed_time(self, end: _Event) -> float:
        """Returns the simulated milliseconds from this moment to *end*."""
        return (end._at_ps - self._at_ps) / 1e9

    def synchronize(self) -> None:
        """Does nothing: launches are over when they return."""

    wait = synchronize

    def query(self) -> bool:
        """True."""
        return True


class _Stream:
    """A stream, in place of `torch.cuda.Stream`. All streams are the same."""

    cuda_stream = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Takes the arguments of torch's class, and ignores them."""

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing."""

    def synchronize(self, *arguments: Any) -> None:
        """Does nothing."""

    wait_stream = wait_event = synchronize

    def record_event(self, event: Any = None) -> Any:
        """Records *event*, or a new one, now, and returns it."""
        event = _Event() if event is None else event
        event.record()
        return event

    def query(self) -> bool:
        """True: launches are over when they return."""
        return True


@contextmanager
def shim_cuda() -> Iterator[None]:
    """Makes `device="cuda"` mean the CPU within the block, and `torch.cuda` answer with facts of the chip.

    Every tensor answers that it is on the first CUDA device, because code for CUDA alone asks.

    Raises KbError where torch is not installed.
    """
    if find_spec("torch") is None:
        raise KbError("--pretend cuda", "a Python without torch", "torch", "install it, or leave out the option")
    torch: Any = import_module("torch")
    mode: Any = import_module("torch.overrides").TorchFunctionMode
    of_tensors = _said_of_tensors(torch)

    class OnTheCpu(mode):  # type: ignore[misc]  # a class of torch, which need not be there
        """Makes tensors on the CPU where CUDA is asked for."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in of_tensors:
                return of_tensors[func](*args)
            if func is torch.device and not _is_number(*args):
                return func(*args, **(kwargs or {}))
            return func(*_arguments_on_cpu(func, args, torch), **_named_on_cpu(kwargs or {}, torch))

    with ExitStack() as stack:
        for name, value in _answers(torch).items():
            stack.enter_context(patch.object(torch.cuda, name, value))
        stack.enter_context(patch.object(torch, "compile", _compiled_by_no_backend(torch.compile)))
        for name, value in _accelerator(torch).items():
            if hasattr(torch.accelerator, name):  # releases of torch differ in these
                said = _but_to_torch(value, getattr(torch.accelerator, name))
                stack.enter_context(patch.object(torch.accelerator, name, said))
        stack.enter_context(patch.object(torch, "Generator", _generator_class(torch)))
        stack.enter_context(patch.object(torch, "set_default_device", lambda device: None))
        stack.enter_context(patch.object(torch.Tensor, "record_stream", lambda tensor, stream: None))
        stack.enter_context(patch.object(torch.version, "cuda", "12.8"))
        for name in ("mark", "range_pop", "range_push"):
            stack.enter_context(patch.object(torch.cuda.nvtx, name, lambda *arguments: 0))
        for place, name, value in _of_generated_code(torch):
            stack.enter_context(patch.object(place, name, value, create=True))
        asked: Any = import_module("torch.utils._triton")
        for name in ("has_triton", "has_triton_package"):
            stack.enter_context(patch.object(asked, name, _but_to_torch(lambda: True, getattr(asked, name))))
        backward = torch.autograd._engine_run_backward
        stack.enter_context(patch.object(torch.autograd, "_engine_run_backward", _within(OnTheCpu, backward)))
        stack.enter_context(patch.object(DRIVER.active, "backend", "cuda"))
        stack.enter_context(OnTheCpu())
        yield


def _compiled_by_no_backend(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `torch.compile` with the backend `eager` in place of `inductor`, which would look for CUDA."""

    def compile_for_the_cpu(model: Any = None, **named: Any) -> Any:
        if named.get("backend", "inductor") == "inductor":
            named = {name: value for name, value in named.items() if name not in ("mode", "options")}
            named["backend"] = "eager"
        return compiled(model, **named)

    return compile_for_the_cpu


def _but_to_torch(said: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls *said* for libraries, and *answer* for torch itself.

    torch would compile kernels if it got the answer that libraries get.
    """

    def function(*arguments: Any, **named: Any) -> Any:
        asks = str(sys._getframe(1).f_globals.get("__name__"))
        return (answer if asks.partition(".")[0] == "torch" else said)(*arguments, **named)

    return function


def _within(mode: Callable[[], Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns *call* within a *mode* of torch. torch leaves its modes while it runs functions such as `backward`."""

    def entered(*arguments: Any, **named: Any) -> Any:
        with mode():
            return call(*arguments, **named)

    return entered


def _generator_class(torch: Any) -> type:
    """Returns a class in place of `torch.Generator` whose generators are on the CPU for every device."""
    made: type = torch.Generator

    class OnTheCpu(type(made)):  # type: ignore[misc]  # a metaclass of torch, which need not be there
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, made)

        def __call__(cls, device: Any = "cpu") -> Any:
            return made(_on_cpu(device, torch))

    class Generator(made, metaclass=OnTheCpu):  # type: ignore[misc]
        """`torch.Generator`, with generators on the CPU."""

    return Generator


def _is_number(*values: Any) -> bool:
    """Whether *values* is one value, and this value is the number of a device."""
    return [type(each) for each in values] == [int]


def _said_of_tensors(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Returns the answers of methods and attributes of tensors, by torch's function for each."""
    return {
        torch.Tensor.cuda: lambda tensor, *arguments: tensor,
        torch.Tensor.pin_memory: lambda tensor, *arguments: tensor,
        torch.Tensor.get_device: lambda tensor: 0,
        torch.Tensor.is_cuda.__get__: lambda *tensor: True,
        torch.Tensor.device.__get__: lambda *tensor: torch.device("cuda", 0),
    }


def _of_generated_code(torch: Any) -> list[tuple[Any, str, Any]]:
    """Returns (place, name, value) for each name that code generated by Inductor imports from torch."""
    guards = torch._C._dynamo.guards
    return [
        (torch._C, "_cuda_getCurrentRawStream", lambda device: 0),
        (guards, "_empty_strided_cuda", guards._empty_strided_cpu),
    ]


def _arguments_on_cpu(func: Any, arguments: tuple[Any, ...], torch: Any) -> tuple[Any, ...]:
    if func is torch.device:
        return "cuda", *arguments
    if func is torch.Tensor.to and _is_number(*arguments[1:2]):
        return arguments[0], "cpu", *arguments[2:]
    return tuple(_on_cpu(each, torch) for each in arguments)


def _named_on_cpu(named: dict[str, Any], torch: Any) -> dict[str, Any]:
    found = {name: _on_cpu(each, torch) for name, each in named.items()}
    return {**found, "device": "cpu"} if _is_number(found.get("device")) else found


def _no_graph(*arguments: Any, **named: Any) -> Any:
    raise KbError("--pretend cuda", "a CUDA graph", "launches", "call what the graph replays")


def _on_cpu(value: Any, torch: Any) -> Any:
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value


def _answers(torch: Any) -> dict[str, Any]:
    """Returns the functions and classes of `torch.cuda` under the shim, by name."""
    answers: dict[str, Callable[..., Any]] = {
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "CUDAGraph": _no_graph,
        "current_device": lambda: 0,
        "current_stream": lambda device=None: _Stream(),
        "default_stream": lambda device=None: _Stream(),
        "device_count": lambda: 1,
        "empty_cache": lambda: None,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_name": lambda device=None: current().topology.name,
        "get_device_properties": lambda device=None: _properties(),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "is_available": lambda: True,
        "is_bf16_supported": lambda *arguments, **named: True,
        "init": lambda: None,
        "ipc_collect": lambda: None,
        "is_current_stream_capturing": lambda: False,
        "is_initialized": lambda: True,
        "can_device_access_peer": lambda device, peer: True,
        "get_sync_debug_mode": lambda: 0,
        "graph": _no_graph,
        "initial_seed": torch.initial_seed,
        "set_sync_debug_mode": lambda mode: None,
        "mem_get_info": lambda device=None: (current().hbm_nbytes, current().hbm_nbytes),
        "manual_seed": torch.default_generator.manual_seed,
        "manual_seed_all": torch.default_generator.manual_seed,
        "max_memory_allocated": lambda device=None: 0,
        "reset_peak_memory_stats": lambda device=None: None,
        "seed": torch.seed,
        "seed_all": torch.seed,
        "set_device": lambda device: None,
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "set_stream": lambda stream: None,
        "stream": lambda stream: _Stream(),
        "synchronize": lambda device=None: None,
    }
    return {**answers, "Event": _Event, "Stream": _Stream, "device": _Stream}


def _accelerator(torch: Any) -> dict[str, Any]:
    """Returns the functions of `torch.accelerator` under the shim, by name."""
    alike = {
        "current_device_idx": "current_device", "current_device_index": "current_device", "device_index": "device",
        "get_memory_info": "mem_get_info", "set_device_idx": "set_device", "set_device_index": "set_device",
    }  # fmt: skip
    same = (
        "current_stream", "device_count", "empty_cache", "is_available", "max_memory_allocated",
        "reset_peak_memory_stats", "synchronize",
    )  # fmt: skip
    answers = _answers(torch)
    found = {name: answers[alike.get(name, name)] for name in (*alike, *same)}
    return {**found, "current_accelerator": lambda check_available=False: torch.device("cuda")}


def _properties() -> SimpleNamespace:
    found = current().properties
    return SimpleNamespace(
        **dict.fromkeys(("is_integrated", "is_multi_gpu_board", "pci_bus_id", "pci_device_id", "pci_domain_id"), 0),
        name=current().topology.name,
        gcnArchName=current().topology.name,
        uuid=current().topology.name,
        L2_cache_size=current().cache_nbytes,
        clock_rate=found["sm_clock_rate"],
        memory_clock_rate=found["mem_clock_rate"],
        memory_bus_width=found["mem_bus_width"],
        max_threads_per_multi_processor=CompiledKernel.n_max_threads,
        max_threads_per_block=CompiledKernel.n_max_threads,
        major=9,
        minor=0,
        multi_processor_count=found["multiprocessor_count"],
        shared_memory_per_multiprocessor=found["max_shared_mem"],
        shared_memory_per_block=found["max_shared_mem"],
        shared_memory_per_block_optin=found["max_shared_mem"],
        regs_per_multiprocessor=found["max_num_regs"],
        warp_size=found["warpSize"],
        total_memory=current().hbm_nbytes,
    )
