"""Pointwise programs: the six arrays of ``torch.ops.tvarant.pointwise``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from torch_tvarant._passes import opcodes

# The same ops one by one, for inputs that the fused kernel does not take.
_EAGER: dict[int, Callable[..., Any]] = {
    opcodes.MUL: operator.mul,
    opcodes.RELU: F.relu,
    opcodes.SILU: F.silu,
    opcodes.NEG: operator.neg,
    opcodes.SIGMOID: torch.sigmoid,
    opcodes.SUB: operator.sub,
    opcodes.DIV: operator.truediv,
    opcodes.MAXIMUM: torch.maximum,
    opcodes.MINIMUM: torch.minimum,
    opcodes.ABS: torch.abs,
    opcodes.EXP: torch.exp,
    opcodes.LOG: torch.log,
    opcodes.SQRT: torch.sqrt,
    opcodes.RSQRT: torch.rsqrt,
    opcodes.RECIPROCAL: torch.reciprocal,
    opcodes.SQUARE: torch.square,
    opcodes.SIN: torch.sin,
    opcodes.COS: torch.cos,
    opcodes.TANH: torch.tanh,
    opcodes.ERF: torch.erf,
    opcodes.GELU: F.gelu,
    opcodes.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
}


@dataclass
class PointwiseProgram:
    """An SSA program; node i defines value i, the last one is the result."""

    ops: list[int] = field(default_factory=list)
    a: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)
    input_ids: list[int] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    consts: list[Any] = field(default_factory=list)

    def add(
        self,
        op: int,
        a: int = -1,
        b: int = -1,
        *,
        input_id: int = -1,
        alpha: float = 1.0,
        const: Any = 0.0,
    ) -> int:
        """Appends a node and returns the index of its value."""
        self.ops.append(op)
        self.a.append(a)
        self.b.append(b)
        self.input_ids.append(input_id)
        self.alphas.append(alpha)
        self.consts.append(const)
        return len(self.ops) - 1

    def arrays(self) -> tuple[list[Any], ...]:
        """What `run_pointwise` takes after its inputs."""
        return (self.ops, self.a, self.b, self.input_ids, self.alphas, self.consts)


def _fits_fused_kernel(inputs: Sequence[Any]) -> bool:
    """Tensors of one float type on one device."""
    first = inputs[0]
    return isinstance(first, torch.Tensor) and all(
        isinstance(x, torch.Tensor)
        and x.dtype == first.dtype
        and x.device == first.device
        and x.layout == torch.strided
        and x.dtype.is_floating_point
        for x in inputs
    )


def _run_eager(
    inputs: Sequence[Any],
    ops: Sequence[int],
    a: Sequence[int],
    b: Sequence[int],
    input_ids: Sequence[int],
    alphas: Sequence[Any],
    consts: Sequence[Any],
) -> Any:
    """Op by op, with PyTorch's rules for whatever the inputs are."""
    values: list[Any] = []
    for i, op in enumerate(ops):
        x = values[a[i]] if a[i] >= 0 else None
        y = values[b[i]] if b[i] >= 0 else None
        if op == opcodes.LOAD:
            values.append(inputs[input_ids[i]])
        elif op == opcodes.CONST:
            values.append(consts[i])
        elif op == opcodes.ADD:
            values.append(x + (y if alphas[i] == 1 else alphas[i] * y))
        elif op == opcodes.SCALE:
            values.append(x * alphas[i])
        elif y is None:
            values.append(_EAGER[op](x))
        else:
            values.append(_EAGER[op](x, y))
    return values[-1]


def run_pointwise(
    inputs: Sequence[Any],
    ops: Sequence[int],
    a: Sequence[int],
    b: Sequence[int],
    input_ids: Sequence[int],
    alphas: Sequence[Any],
    consts: Sequence[Any],
) -> Any:
    """What a fused group becomes in the graph: one launch where that is right.

    The arguments are those of ``torch.ops.tvarant.pointwise``; numbers keep
    their Python type, for the case that the inputs are integers.
    """
    if _fits_fused_kernel(inputs):
        return torch.ops.tvarant.pointwise(
            list(inputs),
            list(ops),
            list(a),
            list(b),
            list(input_ids),
            [float(alpha) for alpha in alphas],
            [float(const) for const in consts],
        )
    return _run_eager(inputs, ops, a, b, input_ids, alphas, consts)
