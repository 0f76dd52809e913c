"""PyTorch's own samples for its operators: the device against the CPU.

Every entry in float32 with gradients, a few samples each; some in other types.
What does not work yet stands in op_db_expected.py with its reason; an entry
there that works again fails, so the list only shrinks.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from op_db_expected import EXPECTED_FAILURES, LOOSE, RANDOM, SKIPPED, UNINITIALISED
from support import DEVICE, make, mirror
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SAMPLES = 4
MAX_ELEMENTS = 200_000
OTHER_DTYPES = (torch.int64, torch.bfloat16, torch.bool)
# Entries whose other types are run too: what a model's glue code consists of.
COMMON = frozenset(
    """
    abs add all amax amin any arange argmax argmin bitwise_and bitwise_not
    bitwise_or bitwise_xor cat chunk clamp clone contiguous cumsum diff
    div.no_rounding_mode eq equal expand flatten flip floor_divide fmod full
    full_like gather ge gt index_select isfinite isnan le linspace logical_and
    logical_not logical_or lt masked_fill max.binary max.reduction_with_dim
    maximum mean min.binary minimum mul narrow ne neg new_full ones_like permute
    pow prod nn.functional.relu remainder repeat reshape roll rsub select sign
    slice split squeeze stack sub sum t tile transpose tril triu unbind
    unsqueeze view where zeros zeros_like
    """.split()
)


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def to_device(value: Any) -> Any:
    """The value with tensors and devices of the CPU replaced."""

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return mirror(x)
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return DEVICE
        return x

    return pytree.tree_map(move, value)


def tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def usable(sample: Any) -> bool:
    """Dense tensors of the CPU, nothing random: what can be mirrored."""
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    if sample.kwargs.get("dropout_p"):
        return False
    return not any(
        isinstance(x, torch.Generator)
        or (
            isinstance(x, torch.Tensor)
            and (
                x.layout != torch.strided or x.numel() > MAX_ELEMENTS or x.is_quantized
            )
        )
        for x in leaves
    )


def strides(x: torch.Tensor) -> list[int]:
    """Strides that say where an element is."""
    if x.numel() == 0:
        return []
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]


def assert_results(name: str, ours: Any, theirs: Any, what: str, factor: float) -> None:
    ours, theirs = pytree.tree_leaves(ours), pytree.tree_leaves(theirs)
    assert len(ours) == len(theirs), what
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or a == pytest.approx(b, rel=1e-4, nan_ok=True), what
            continue
        assert a.device == DEVICE, f"{what} is on {a.device}"
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        if name in RANDOM or name in UNINITIALISED:
            continue
        assert strides(a) == strides(b), f"{what}: strides"
        rtol, atol = (1e-4, 1e-4) if b.dtype != torch.bfloat16 else (4e-2, 4e-2)
        torch.testing.assert_close(
            a.detach().cpu(),
            b.detach(),
            rtol=rtol * factor,
            atol=atol * factor,
            equal_nan=True,
            msg=lambda text: f"{what}: {text}",
        )


def gradients(function: Any, sample: Any, args: tuple, move: Any) -> tuple[Any, Any]:
    result = function(*args)
    if sample.output_process_fn_grad is not None:
        processed = sample.output_process_fn_grad(result)
    outputs = [t for t in tensors(processed) if t.requires_grad and not t.is_complex()]
    inputs = [t for t in tensors(args) if t.requires_grad and t.is_leaf]
    if not outputs or not inputs:
        return result, []
    seeds = [move(make(*t.shape, dtype=t.dtype, seed=i)) for i, t in enumerate(outputs)]
    return result, torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)


def run(op: Any, dtype: torch.dtype) -> None:
    name = full_name(op)
    grad = op.supports_autograd and dtype == torch.float32 and name not in RANDOM
    torch.manual_seed(0)
    samples = filter(usable, op.sample_inputs("cpu", dtype, requires_grad=grad))
    ran = 0
    for number, sample in enumerate(itertools.islice(samples, SAMPLES)):
        on_device = to_device((sample.input, sample.args, sample.kwargs))
        on_cpu = (sample.input, sample.args, sample.kwargs)
        if name == "tensor_split":  # wants its indices on the host
            on_device = (on_device[0], *on_cpu[1:])

        def call(value: Any, args: tuple, kwargs: dict) -> Any:
            return op.op(value, *args, **kwargs)

        what = f"sample {number}"
        factor = LOOSE.get(name, 1.0)
        if grad:
            expected, expected_grads = gradients(call, sample, on_cpu, lambda x: x)
            ours, our_grads = gradients(call, sample, on_device, mirror)
            assert_results(name, ours, expected, f"{what} result", factor)
            assert_results(name, our_grads, expected_grads, f"{what} gradient", factor)
        else:
            expected, ours = call(*on_cpu), call(*on_device)
            assert_results(name, ours, expected, f"{what} result", factor)
        ran += 1
    if ran == 0:
        pytest.skip("no sample of dense tensors")


def cases() -> list[Any]:
    found = []
    for op in op_db:
        name = full_name(op)
        dtypes = [torch.float32] if torch.float32 in op.dtypes else []
        if name in COMMON:
            dtypes += [d for d in OTHER_DTYPES if d in op.dtypes]
        if not dtypes and torch.int64 in op.dtypes:
            dtypes = [torch.int64]
        for dtype in dtypes:
            label = f"{name}-{str(dtype).removeprefix('torch.')}"
            marks = []
            reason = EXPECTED_FAILURES.get(label) or EXPECTED_FAILURES.get(name)
            if name in SKIPPED:
                marks.append(pytest.mark.skip(reason=SKIPPED[name]))
            elif reason:
                marks.append(pytest.mark.xfail(strict=True, reason=reason))
            found.append(pytest.param(op, dtype, id=label, marks=marks))
    return found


CASES = cases()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("op,dtype", CASES)
def test_op(op, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(op, dtype)


def test_lists_name_real_entries():
    names = {full_name(op) for op in op_db} | {case.id for case in CASES}
    for listed in (EXPECTED_FAILURES, SKIPPED, LOOSE, RANDOM, UNINITIALISED, COMMON):
        unknown = set(listed) - names
        assert not unknown, unknown


def test_entries_that_run_natively():
    """The ops of the first models reach no fallback on their samples."""
    torch.tvarant.reset_fallback_stats()
    wanted = (
        "add sub mul div matmul mm bmm addmm baddbmm softmax log_softmax sum mean "
        "amax argmax exp log tanh sigmoid nn.functional.relu nn.functional.gelu "
        "nn.functional.silu nn.functional.layer_norm nn.functional.embedding cat where "
        "clamp masked_fill index_select gather tril triu cumsum transpose arange "
        "nn.functional.linear nn.functional.cross_entropy nn.functional.nll_loss"
    ).split()
    missing = set(wanted) - {op.name for op in op_db}
    assert missing <= {"softmax", "log_softmax"}, missing
    for op in op_db:
        if op.name in wanted and torch.float32 in op.dtypes:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(op, torch.float32)
    # Losses of images, and limits to the norms of a table, have kernels of their own.
    allowed = {
        "aten::nll_loss2d_forward",
        "aten::nll_loss2d_backward",
    }
    assert set(torch.tvarant.fallback_stats()) <= allowed
