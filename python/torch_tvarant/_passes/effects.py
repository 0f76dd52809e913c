"""Which nodes of a graph may change memory that others read.

A pass moves a value's computation down to where it is used last. That is right
only if nothing in between writes to its operands.
"""

from __future__ import annotations

import operator
from collections.abc import Container

import torch
from torch import fx

_WRITING_FUNCTIONS = frozenset(
    {operator.setitem, operator.delitem}
    | {getattr(operator, name) for name in dir(operator) if name.startswith("i")}
    - {operator.index, operator.indexOf, operator.inv, operator.invert}
    - {operator.is_, operator.is_not, operator.itemgetter}
)


def may_write(gm: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node may change a tensor that existed before it."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    if node.kwargs.get("inplace") or node.kwargs.get("out") is not None:
        return True
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    if node.op == "call_module":
        module = gm.get_submodule(str(node.target))
        plain = type(module).__module__.startswith("torch.nn.")
        return not plain or bool(getattr(module, "inplace", False))
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    name = getattr(node.target, "__name__", "")
    return node.target in _WRITING_FUNCTIONS or (
        name.endswith("_") and not name.endswith("__")
    )


def epochs(gm: fx.GraphModule, harmless: Container[fx.Node]) -> dict[fx.Node, int]:
    """Number of possible writes before each node.

    A node may be moved down to another of the same number. Writes of the
    `harmless` nodes do not count.
    """
    count = 0
    numbers = {}
    for node in gm.graph.nodes:
        numbers[node] = count
        count += node not in harmless and may_write(gm, node)
    return numbers
