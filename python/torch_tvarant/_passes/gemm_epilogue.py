"""Merges a matrix product with the activation that follows it."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import fx

from torch_tvarant._passes import effects, opcodes, pointwise

_ACTIVATIONS = {
    opcodes.RELU: "relu",
    opcodes.SILU: "silu",
    opcodes.GELU: "gelu",
    opcodes.GELU_TANH: "gelu_tanh",
}
_EAGER_ACTIVATIONS = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


_aten = torch.ops.aten
_MM = (torch.mm, _aten.mm.default)
_ADDMM = (torch.addmm, _aten.addmm.default)
_ADD = (torch.add, operator.add, _aten.add.Tensor)


class _Product(NamedTuple):
    x: Any
    weight: Any
    bias: Any
    trans_b: bool  # weight is [N, K], as of nn.Linear
    nodes: tuple[fx.Node, ...]  # what is replaced, last first


def run_linear_act(
    x: Any, weight: Any, bias: Any, act: str, trans_b: bool
) -> torch.Tensor:
    """act(x @ weight + bias): fused where the kernel takes the operands.

    A bias that is no row vector (a residual, a number) is added by PyTorch.
    """
    if _fits(x, weight, bias, trans_b):
        return torch.ops.tvarant.linear_act(x, weight, bias, act, trans_b)
    product = F.linear(x, weight) if trans_b else torch.matmul(x, weight)
    if bias is not None:
        product = product + bias
    return _EAGER_ACTIVATIONS[act](product)


def _fits(x: Any, weight: Any, bias: Any, trans_b: bool) -> bool:
    if not (isinstance(x, torch.Tensor) and isinstance(weight, torch.Tensor)):
        return False
    if weight.dim() != 2 or x.dim() < 1 or not x.dtype.is_floating_point:
        return False
    if weight.dtype != x.dtype or weight.device != x.device:
        return False
    if bias is None:
        return True
    width = weight.shape[0] if trans_b else weight.shape[1]
    return (
        isinstance(bias, torch.Tensor)
        and bias.dtype == x.dtype
        and bias.device == x.device
        and bias.dim() in (1, 2)
        and bias.shape[-1] == width
        and bias.numel() == width
    )


def _argument(node: fx.Node, index: int, name: str, default: Any = None) -> Any:
    return (
        node.args[index] if len(node.args) > index else node.kwargs.get(name, default)
    )


def _product(node: Any) -> _Product | None:
    """linear, addmm(alpha = beta = 1), mm, or add of mm and something."""
    if not isinstance(node, fx.Node):
        return None
    target = node.target
    if node.op == "call_function" and target is F.linear:
        return _Product(
            _argument(node, 0, "input"),
            _argument(node, 1, "weight"),
            _argument(node, 2, "bias"),
            True,
            (node,),
        )
    if node.op == "call_function" and target in _ADDMM:
        if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("beta", 1) != 1:
            return None
        if len(node.args) != 3:
            return None
        bias, x, weight = node.args
        return _Product(x, weight, bias, False, (node,))
    if _is_mm(node):
        return _Product(node.args[0], node.args[1], None, False, (node,))
    if _is_plain_add(node):
        for product, other in (node.args, reversed(node.args)):
            if _is_mm(product) and len(product.users) == 1 and other is not product:
                x, weight = product.args
                return _Product(x, weight, other, False, (node, product))
    return None


def _is_mm(node: Any) -> bool:
    if not isinstance(node, fx.Node) or len(node.args) != 2 or node.kwargs:
        return False
    if node.op == "call_method":
        return node.target == "mm"
    return node.op == "call_function" and node.target in _MM


def _is_plain_add(node: fx.Node) -> bool:
    if len(node.args) != 2 or node.kwargs.get("alpha", 1) != 1:
        return False
    if set(node.kwargs) - {"alpha"}:
        return False
    if node.op == "call_method":
        return node.target == "add"
    return node.op == "call_function" and node.target in _ADD


def run(gm: fx.GraphModule) -> int:
    """Rewrites the graph; returns the number of products merged."""
    count = 0
    matches = {n: m for n in gm.graph.nodes if (m := pointwise.match_node(n))}
    epochs = effects.epochs(gm, harmless=matches)
    for node in list(gm.graph.nodes):
        match = matches.get(node)
        if match is None or match.op not in _ACTIVATIONS:
            continue
        producer = match.operands[0]
        product = _product(producer)
        if product is None or len(producer.users) != 1:
            continue
        if any(epochs[replaced] != epochs[node] for replaced in product.nodes):
            continue
        with gm.graph.inserting_before(node):
            fused = gm.graph.call_function(
                run_linear_act,
                (
                    product.x,
                    product.weight,
                    product.bias,
                    _ACTIVATIONS[match.op],
                    product.trans_b,
                ),
            )
            fused.meta = dict(node.meta)
        node.replace_all_uses_with(fused)
        gm.graph.erase_node(node)
        for replaced in product.nodes:
            gm.graph.erase_node(replaced)
        count += 1
    return count
