"""Merges connected groups of element-wise ops into one launch each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from torch_tvarant._passes import effects, opcodes
from torch_tvarant._passes.program import PointwiseProgram, run_pointwise

_MAX_NODES = 64
_MAX_INPUTS = 16


@dataclass(frozen=True)
class _Match:
    """An element-wise node: op code and its operands (nodes or numbers)."""

    op: int
    operands: tuple[Any, ...]
    alpha: float = 1.0


_Matcher = Callable[[fx.Node], _Match | None]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unary(op: int) -> _Matcher:
    def match(node: fx.Node) -> _Match | None:
        kwargs = {k: v for k, v in node.kwargs.items() if k != "inplace"}
        if node.kwargs.get("inplace") and not _may_overwrite(node.args[0]):
            return None
        if len(node.args) != 1 or kwargs or not isinstance(node.args[0], fx.Node):
            return None
        return _Match(op, (node.args[0],))

    return match


def _binary(op: int) -> _Matcher:
    def match(node: fx.Node) -> _Match | None:
        if len(node.args) != 2:
            return None
        alpha = node.kwargs.get("alpha", 1)
        if set(node.kwargs) - {"alpha"} or not _is_number(alpha):
            return None
        if not all(isinstance(x, fx.Node) or _is_number(x) for x in node.args):
            return None
        if not any(isinstance(x, fx.Node) for x in node.args):
            return None
        return _Match(op, tuple(node.args), alpha)

    return match


def _gelu(node: fx.Node) -> _Match | None:
    approximate = node.kwargs.get("approximate", "none")
    codes = {"none": opcodes.GELU, "tanh": opcodes.GELU_TANH}
    if set(node.kwargs) - {"approximate"} or approximate not in codes:
        return None
    if len(node.args) != 1 or not isinstance(node.args[0], fx.Node):
        return None
    return _Match(codes[approximate], (node.args[0],))


def _may_overwrite(value: Any) -> bool:
    """Whether an in-place op on a value is as good as a pure one.

    It is when nobody else can see the value: a fresh result with one reader.
    """
    return (
        isinstance(value, fx.Node)
        and len(value.users) == 1
        and (value.target in _FRESH or match_node(value) is not None)
    )


def _inplace(pure: _Matcher) -> _Matcher:
    def match(node: fx.Node) -> _Match | None:
        return pure(node) if _may_overwrite(node.args[0]) else None

    return match


# Ops whose result is always new memory.
_FRESH = frozenset(
    {F.linear, torch.mm, torch.addmm, torch.matmul, operator.matmul, torch.bmm}
)

_FUNCTIONS: dict[Any, _Matcher] = {
    torch.relu: _unary(opcodes.RELU),
    F.relu: _unary(opcodes.RELU),
    torch.relu_: _inplace(_unary(opcodes.RELU)),
    F.silu: _unary(opcodes.SILU),
    F.gelu: _gelu,
    torch.neg: _unary(opcodes.NEG),
    operator.neg: _unary(opcodes.NEG),
    torch.sigmoid: _unary(opcodes.SIGMOID),
    F.sigmoid: _unary(opcodes.SIGMOID),
    torch.tanh: _unary(opcodes.TANH),
    F.tanh: _unary(opcodes.TANH),
    torch.exp: _unary(opcodes.EXP),
    torch.log: _unary(opcodes.LOG),
    torch.sqrt: _unary(opcodes.SQRT),
    torch.rsqrt: _unary(opcodes.RSQRT),
    torch.abs: _unary(opcodes.ABS),
    torch.erf: _unary(opcodes.ERF),
    torch.sin: _unary(opcodes.SIN),
    torch.cos: _unary(opcodes.COS),
    torch.square: _unary(opcodes.SQUARE),
    torch.reciprocal: _unary(opcodes.RECIPROCAL),
    torch.add: _binary(opcodes.ADD),
    operator.add: _binary(opcodes.ADD),
    torch.sub: _binary(opcodes.SUB),
    operator.sub: _binary(opcodes.SUB),
    torch.mul: _binary(opcodes.MUL),
    operator.mul: _binary(opcodes.MUL),
    torch.div: _binary(opcodes.DIV),
    operator.truediv: _binary(opcodes.DIV),
    torch.maximum: _binary(opcodes.MAXIMUM),
    torch.minimum: _binary(opcodes.MINIMUM),
}
_aten = torch.ops.aten
_FUNCTIONS |= {
    _aten.relu.default: _unary(opcodes.RELU),
    _aten.silu.default: _unary(opcodes.SILU),
    _aten.gelu.default: _gelu,
    _aten.neg.default: _unary(opcodes.NEG),
    _aten.sigmoid.default: _unary(opcodes.SIGMOID),
    _aten.tanh.default: _unary(opcodes.TANH),
    _aten.exp.default: _unary(opcodes.EXP),
    _aten.log.default: _unary(opcodes.LOG),
    _aten.sqrt.default: _unary(opcodes.SQRT),
    _aten.rsqrt.default: _unary(opcodes.RSQRT),
    _aten.abs.default: _unary(opcodes.ABS),
    _aten.erf.default: _unary(opcodes.ERF),
    _aten.sin.default: _unary(opcodes.SIN),
    _aten.cos.default: _unary(opcodes.COS),
    _aten.reciprocal.default: _unary(opcodes.RECIPROCAL),
    _aten.add.Tensor: _binary(opcodes.ADD),
    _aten.sub.Tensor: _binary(opcodes.SUB),
    _aten.mul.Tensor: _binary(opcodes.MUL),
    _aten.div.Tensor: _binary(opcodes.DIV),
    _aten.maximum.default: _binary(opcodes.MAXIMUM),
    _aten.minimum.default: _binary(opcodes.MINIMUM),
}

_METHODS: dict[str, _Matcher] = {
    "relu": _unary(opcodes.RELU),
    "relu_": _inplace(_unary(opcodes.RELU)),
    "neg": _unary(opcodes.NEG),
    "sigmoid": _unary(opcodes.SIGMOID),
    "tanh": _unary(opcodes.TANH),
    "exp": _unary(opcodes.EXP),
    "log": _unary(opcodes.LOG),
    "sqrt": _unary(opcodes.SQRT),
    "rsqrt": _unary(opcodes.RSQRT),
    "abs": _unary(opcodes.ABS),
    "square": _unary(opcodes.SQUARE),
    "add": _binary(opcodes.ADD),
    "sub": _binary(opcodes.SUB),
    "mul": _binary(opcodes.MUL),
    "div": _binary(opcodes.DIV),
}


def match_node(node: fx.Node) -> _Match | None:
    """The element-wise op of a node; None if it is none that is known."""
    matcher: _Matcher | None = None
    if node.op == "call_function":
        matcher = _FUNCTIONS.get(node.target)
    elif node.op == "call_method":
        matcher = _METHODS.get(str(node.target))
    return matcher(node) if matcher is not None else None


def _operand_nodes(match: _Match) -> Iterator[fx.Node]:
    return (x for x in match.operands if isinstance(x, fx.Node))


def _group_of(
    root: fx.Node, matches: dict[fx.Node, _Match], epochs: dict[fx.Node, int]
) -> set[fx.Node]:
    """The nodes merged into `root`: those whose readers are all in the group.

    None of them is moved past a node that may write to memory that it reads.
    """
    group = {root}
    work = [root]
    while work:
        for node in _operand_nodes(matches[work.pop()]):
            if (
                node in matches
                and node not in group
                and all(user in group for user in node.users)
                and epochs[node] == epochs[root]
                and len(group) < _MAX_NODES
            ):
                group.add(node)
                work.append(node)
    return group


def _emit(
    ordered: list[fx.Node], matches: dict[fx.Node, _Match]
) -> tuple[PointwiseProgram, list[fx.Node]]:
    program = PointwiseProgram()
    inputs: list[fx.Node] = []
    value_of: dict[fx.Node, int] = {}

    def value(operand: Any) -> int:
        if not isinstance(operand, fx.Node):
            return program.add(opcodes.CONST, const=operand)
        if operand not in value_of:
            inputs.append(operand)
            value_of[operand] = program.add(opcodes.LOAD, input_id=len(inputs) - 1)
        return value_of[operand]

    for node in ordered:
        match = matches[node]
        if match.op == opcodes.SUB and match.alpha != 1:
            x, y = (value(operand) for operand in match.operands)
            result = program.add(opcodes.ADD, x, y, alpha=-match.alpha)
        elif match.op == opcodes.MUL and _is_number(match.operands[1]):
            x = value(match.operands[0])
            result = program.add(opcodes.SCALE, x, alpha=match.operands[1])
        else:
            operands = [value(operand) for operand in match.operands]
            result = program.add(match.op, *operands, alpha=match.alpha)
        value_of[node] = result
    return program, inputs


def run(gm: fx.GraphModule) -> int:
    """Rewrites the graph; returns the number of groups merged."""
    matches = {n: m for n in gm.graph.nodes if (m := match_node(n)) is not None}
    # An in-place op that matched writes to memory that only it can see.
    epochs = effects.epochs(gm, harmless=matches)
    done: set[fx.Node] = set()
    count = 0
    for root in reversed(list(gm.graph.nodes)):
        if root not in matches or root in done:
            continue
        group = _group_of(root, matches, epochs)
        ordered = [n for n in gm.graph.nodes if n in group]
        program, inputs = _emit(ordered, matches)
        if len(group) < 2 or len(inputs) > _MAX_INPUTS:
            continue
        with gm.graph.inserting_before(root):
            fused = gm.graph.call_function(run_pointwise, (inputs, *program.arrays()))
            fused.meta = dict(root.meta)
        root.replace_all_uses_with(fused)
        for node in reversed(ordered):
            gm.graph.erase_node(node)
        done |= group
        count += 1
    return count
