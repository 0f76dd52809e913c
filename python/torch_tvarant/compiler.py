"""The compiler: fewer, larger launches.

``torch.compile(model, backend="tvarant")`` is the way for most programs: it
compiles forward and backward. ``compile(model)`` traces a module once with FX,
without dynamo, and fuses what it can; training mode, parameters and autograd
stay as they are.

What is fused is never guessed: where a pattern's shapes or types turn out at
run time to be others than the fused kernel takes, the original ops run.

Example::

    from torch_tvarant import compiler
    fused = compiler.compile(torch.nn.Sequential(torch.nn.Linear(8, 8),
                                                 torch.nn.ReLU()).to("tvarant"))
    fused(x)
    compiler.last_log      # {"gemm_epilogue": 1, "pointwise_groups": 0}
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn

from torch_tvarant._passes import gemm_epilogue, pointwise
from torch_tvarant._passes.opcodes import (
    ADD,
    CONST,
    LOAD,
    MUL,
    NEG,
    RELU,
    SCALE,
    SIGMOID,
    SILU,
)
from torch_tvarant._passes.tracer import TvarantTracer


class _Log(threading.local):
    """What the last compilation of this thread did."""

    def __init__(self) -> None:
        self.counts: dict[str, Any] = {}


_log = _Log()


def __getattr__(name: str) -> Any:
    if name == "last_log":
        return _log.counts
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _finish(gm: fx.GraphModule) -> fx.GraphModule:
    gm.graph.lint()
    gm.recompile()
    return gm


def trace_module(module: nn.Module) -> fx.GraphModule:
    """FX trace of a module with the layers it knows inlined.

    Parameters are shared and the training mode is kept. Control flow that
    depends on data raises ``torch.fx.proxy.TraceError``.
    """
    tracer = TvarantTracer()
    graph = tracer.trace(module)
    traced = fx.GraphModule(tracer.root, graph, type(module).__name__)
    traced.training = module.training
    return traced


def fuse_gemm_epilogue(gm: fx.GraphModule) -> fx.GraphModule:
    """Merges linear, addmm, mm and mm + bias with a following activation.

    Works in place. Sets ``last_log["gemm_epilogue"]`` to the number merged.
    """
    _log.counts = {**_log.counts, "gemm_epilogue": gemm_epilogue.run(gm)}
    return _finish(gm)


def fuse_pointwise(gm: fx.GraphModule) -> fx.GraphModule:
    """Merges connected groups of element-wise ops into one launch each.

    Works in place. Sets ``last_log["pointwise_groups"]``.
    """
    _log.counts = {**_log.counts, "pointwise_groups": pointwise.run(gm)}
    return _finish(gm)


def compile_fx(
    gm: fx.GraphModule, example_inputs: Sequence[Any] | None = None
) -> fx.GraphModule:
    """Both passes, in place: GEMM epilogues, then pointwise groups."""
    _log.counts = {}
    return fuse_pointwise(fuse_gemm_epilogue(gm))


def compile(module: nn.Module, *, dynamic: bool = False) -> Callable[..., Any]:  # noqa: A001
    """A faster form of a module, with the same parameters and training mode.

    A module that FX can't trace goes to ``torch.compile(backend="tvarant")``;
    ``last_log["not_traced"]`` then says why.
    """
    try:
        traced = trace_module(module)
    except Exception as error:  # FX raises whatever the module's code raises
        _log.counts = {
            "gemm_epilogue": 0,
            "pointwise_groups": 0,
            "not_traced": f"{type(error).__name__}: {error}",
        }
        register()
        return torch.compile(module, backend="tvarant", dynamic=dynamic)
    return compile_fx(traced)


def register() -> None:
    """Makes ``torch.compile(backend="tvarant")`` known. Idempotent.

    The wheel's entry point does it already; a source tree needs the call.
    """
    from torch._dynamo.backends import registry

    if "tvarant" in registry.list_backends(exclude_tags=()):
        return
    from torch_tvarant.dynamo_backend import tvarant

    registry.register_backend(tvarant, name="tvarant")


__all__ = [
    "ADD",
    "CONST",
    "LOAD",
    "MUL",
    "NEG",
    "RELU",
    "SCALE",
    "SIGMOID",
    "SILU",
    "TvarantTracer",
    "compile",
    "compile_fx",
    "fuse_gemm_epilogue",
    "fuse_pointwise",
    "last_log",  # noqa: F822  (made by __getattr__)
    "register",
    "trace_module",
]
