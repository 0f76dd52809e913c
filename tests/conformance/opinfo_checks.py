"""What holds for every operator of PyTorch's op_db: the device does what the CPU does.

Each check runs one entry in one dtype on mirrored inputs (same values, strides
and offsets) and compares values, dtypes, shapes, strides and errors with the
CPU's. A check raises AssertionError, or whatever the device raised.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from support import DEVICE, make, mirror
from torch.testing._internal.opinfo.core import BinaryUfuncInfo
from torch.utils import _pytree as pytree

# Larger samples say nothing more, and take long on two cores.
MAX_ELEMENTS = 200_000

# (relative, absolute), as far as two orders of the same sum may differ.
TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-4),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (4e-2, 4e-2),
    torch.complex64: (1e-4, 1e-4),
    torch.complex128: (1e-7, 1e-7),
}


@dataclass(frozen=True)
class Entry:
    """An entry of op_db in one dtype, and how it is compared."""

    op: Any
    dtype: torch.dtype
    factor: float = 1.0  # of the tolerance
    values: bool = True  # False: random or uninitialised
    places: bool = True  # False: which of equal elements is not defined
    samples: int = 4

    @property
    def name(self) -> str:
        return full_name(self.op)


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


# --- inputs ------------------------------------------------------------------


def leaves(value: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def usable(sample: Any) -> bool:
    """Dense tensors of the CPU, nothing random: what can be mirrored."""
    found = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    if sample.kwargs.get("dropout_p"):
        return False
    return not any(
        isinstance(x, torch.Generator)
        or (
            isinstance(x, torch.Tensor)
            and (
                x.layout != torch.strided
                or x.device.type != "cpu"
                or x.numel() > MAX_ELEMENTS
                or x.is_quantized
                or type(x) not in (torch.Tensor, torch.nn.Parameter)
            )
        )
        for x in found
    )


def samples(entry: Entry, *, grad: bool = False) -> Iterator[Any]:
    """Some samples: the first ones, and the rest in even steps."""
    torch.manual_seed(0)
    found = entry.op.sample_inputs("cpu", entry.dtype, requires_grad=grad)
    kept = [s for s in itertools.islice(found, 200) if usable(s)]
    if len(kept) > entry.samples:
        step = (len(kept) - 1) / (entry.samples - 1)
        kept = [kept[round(i * step)] for i in range(entry.samples)]
    return iter(kept)


@dataclass
class Call:
    """An operator's arguments on one side."""

    input: Any
    args: tuple
    kwargs: dict

    device: torch.device

    def __call__(self, function: Callable, **more: Any) -> Any:
        if not self.tensors():  # a factory; its device is the default one
            with self.device:
                return function(self.input, *self.args, **self.kwargs, **more)
        return function(self.input, *self.args, **self.kwargs, **more)

    def tensors(self) -> list[torch.Tensor]:
        return leaves((self.input, self.args, self.kwargs))


def both_sides(entry: Entry, sample: Any) -> tuple[Call, Call]:
    """The sample for the device and for the CPU."""
    cpu = Call(sample.input, sample.args, sample.kwargs, torch.device("cpu"))

    storages: dict[int, torch.Tensor] = {}
    same: dict[int, torch.Tensor] = {}

    def mirror_sharing(x: torch.Tensor) -> torch.Tensor:
        """As mirror; tensors that share memory do so on the device."""
        if x.is_conj() or x.is_neg() or x.numel() == 0:
            return mirror(x)
        key = x.untyped_storage().data_ptr()
        if key not in storages or storages[key].dtype != x.dtype:
            count = x.untyped_storage().nbytes() // x.element_size()
            whole = x.detach().as_strided((count,), (1,), 0)
            storages[key] = mirror(whole)
        return (
            storages[key]
            .as_strided(x.size(), x.stride(), x.storage_offset())
            .requires_grad_(x.requires_grad)
        )

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            if id(x) not in same:
                same[id(x)] = mirror_sharing(x)
            return same[id(x)]
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return DEVICE
        return x

    device = Call(
        *(pytree.tree_map(move, part) for part in (cpu.input, cpu.args, cpu.kwargs)),
        DEVICE,
    )
    if entry.op.name == "tensor_split":  # wants its indices on the host
        device.args = cpu.args
    return device, cpu


# --- comparison --------------------------------------------------------------


def strides(x: torch.Tensor) -> list[int]:
    """Strides that say where an element is."""
    if x.numel() == 0:
        return []
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]


def compare(
    entry: Entry, ours: Any, theirs: Any, what: str, *, same_strides: bool = True
) -> None:
    ours, theirs = pytree.tree_leaves(ours), pytree.tree_leaves(theirs)
    assert len(ours) == len(theirs), what
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            assert not entry.values or a == b or _close(a, b), f"{what}: {a} != {b}"
            continue
        assert a.device == DEVICE, f"{what} is on {a.device}"
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (
            f"{what}: {a.dtype} {tuple(a.shape)}, want {b.dtype} {tuple(b.shape)}"
        )
        if same_strides:
            assert strides(a) == strides(b), f"{what}: {a.stride()} want {b.stride()}"
        if not entry.values:
            continue
        if not entry.places and b is theirs[-1] and b.dtype == torch.int64:
            continue
        relative, absolute = TOLERANCE.get(b.dtype, (0, 0))
        if entry.dtype in TOLERANCE and b.dtype in TOLERANCE:
            relative, absolute = map(max, (relative, absolute), TOLERANCE[entry.dtype])
        torch.testing.assert_close(
            a.detach().cpu(),
            b.detach(),
            rtol=relative * entry.factor,
            atol=absolute * entry.factor,
            equal_nan=True,
            msg=lambda text: f"{what}: {text}",
        )


def _close(a: Any, b: Any) -> bool:
    try:
        return abs(a - b) <= 1e-4 * max(1.0, abs(b)) or (a != a and b != b)
    except TypeError:
        return False


def outcome(function: Callable[[], Any]) -> tuple[Any, type | None]:
    """What a call returns, or the type of what it raises."""
    try:
        result = function()
        for tensor in leaves(result):  # errors of the device come with a read
            if tensor.device == DEVICE:
                torch.tvarant.synchronize()
                break
    except Exception as error:  # any type: that is what is compared
        return None, type(error)
    return result, None


def same_error(ours: type, theirs: type) -> bool:
    """The device may be more exact about the type, as CUDA is."""
    return issubclass(ours, theirs) or issubclass(theirs, ours)


# --- checks ------------------------------------------------------------------


def check_forward(entry: Entry) -> int:
    """Values of a few samples. Returns how many there were."""
    ran = 0
    for number, sample in enumerate(samples(entry)):
        device, cpu = both_sides(entry, sample)
        expected = cpu(entry.op.op)
        compare(entry, device(entry.op.op), expected, f"sample {number}")
        ran += 1
    return ran


def _gradients(entry: Entry, call: Call, sample: Any, move: Callable) -> Any:
    result = sample.output_process_fn_grad(call(entry.op.op))
    outputs = [t for t in leaves(result) if t.requires_grad and not t.is_complex()]
    inputs = [t for t in call.tensors() if t.requires_grad and t.is_leaf]
    if not outputs or not inputs:
        return []
    seeds = [move(make(*t.shape, dtype=t.dtype, seed=i)) for i, t in enumerate(outputs)]
    return torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)


def check_gradients(entry: Entry) -> None:
    for number, sample in enumerate(samples(entry, grad=True)):
        device, cpu = both_sides(entry, sample)
        expected = _gradients(entry, cpu, sample, lambda x: x)
        ours = _gradients(entry, device, sample, mirror)
        compare(entry, ours, expected, f"sample {number} gradient", same_strides=False)


def check_noncontiguous(entry: Entry) -> None:
    """The same values with gaps between them."""
    for number, sample in enumerate(itertools.islice(samples(entry), 2)):
        device, cpu = both_sides(entry, sample.noncontiguous())
        expected, error = outcome(lambda cpu=cpu: cpu(entry.op.op))
        if error is None:
            compare(entry, device(entry.op.op), expected, f"sample {number} with gaps")


def check_out(entry: Entry) -> None:
    """out= of the right size, with gaps, empty, and of a wrong size."""
    for number, sample in enumerate(itertools.islice(samples(entry), 2)):
        device, cpu = both_sides(entry, sample)
        expected = cpu(entry.op.op)
        results = pytree.tree_leaves(expected)
        if not results or not all(isinstance(x, torch.Tensor) for x in results):
            return
        makers: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "right": lambda x: torch.zeros_like(x),
            "gaps": lambda x: x.new_zeros((*x.shape, 2))[..., 0],
            "empty": lambda x: x.new_zeros(0),
            "wrong": lambda x: x.new_zeros((*x.shape, 1, 2)),
        }
        for kind, maker in makers.items():
            what = f"sample {number} out= {kind}"
            given = [maker(x) for x in results]
            mirrored = [mirror(x) for x in given]

            def shape(outs: list[torch.Tensor], expected: Any = expected) -> Any:
                return outs[0] if isinstance(expected, torch.Tensor) else tuple(outs)

            _, error = outcome(
                lambda given=given, shape=shape, cpu=cpu: cpu(
                    entry.op.op, out=shape(given)
                )
            )
            _, our_error = outcome(
                lambda mirrored=mirrored, shape=shape, device=device: device(
                    entry.op.op, out=shape(mirrored)
                )
            )
            if error is not None or our_error is not None:
                assert error is not None and our_error is not None, (
                    f"{what}: raised {our_error}, the CPU {error}"
                )
                assert same_error(our_error, error), f"{what}: {our_error} != {error}"
                continue
            wanted = [
                result if result.shape == cpu_out.shape else cpu_out
                for result, cpu_out in zip(results, given, strict=True)
            ]
            try:
                compare(entry, mirrored, wanted, what, same_strides=False)
            except AssertionError:
                # Some of the CPU's operators write wrong values into an output
                # with gaps; a fallback then does the same.
                compare(entry, mirrored, given, what, same_strides=False)
            if kind in ("right", "gaps"):  # not resized
                for a, b in zip(mirrored, given, strict=True):
                    assert strides(a) == strides(b), f"{what}: {a.stride()}"


def check_in_place(entry: Entry) -> None:
    """In place on a view: the base around it stays as it was."""
    inplace = entry.op.get_inplace()
    for number, sample in enumerate(samples(entry)):
        value = sample.input
        if not isinstance(value, torch.Tensor) or sample.broadcasts_input:
            continue
        base = value.new_zeros([size + 2 for size in value.shape])
        base.copy_(make(*base.shape, dtype=base.dtype, low=1, high=3))
        inside = tuple(slice(1, 1 + size) for size in value.shape)
        base[inside] = value
        our_base = mirror(base)
        device, cpu = both_sides(entry, sample)
        cpu.input, device.input = base[inside], our_base[inside]
        _, error = outcome(lambda cpu=cpu: cpu(inplace))
        _, our_error = outcome(lambda device=device: device(inplace))
        what = f"sample {number} in place"
        if error is not None or our_error is not None:
            assert error is not None and our_error is not None, (
                f"{what}: raised {our_error}, the CPU {error}"
            )
            continue
        compare(entry, our_base, base, what)


def check_scalar_operands(entry: Entry) -> None:
    """0-dim tensors of the CPU beside tensors of the device, as PyTorch allows."""
    for number, sample in enumerate(samples(entry)):
        if len(sample.args) != 1 or not isinstance(sample.args[0], torch.Tensor):
            continue
        device, cpu = both_sides(entry, sample)
        if not isinstance(cpu.input, torch.Tensor) or cpu.input.dim() == 0:
            continue
        scalar = make(dtype=entry.dtype, low=1, high=3)
        cpu.args = device.args = (scalar,)
        expected, error = outcome(lambda cpu=cpu: cpu(entry.op.op))
        if error is None:
            compare(
                entry, device(entry.op.op), expected, f"sample {number} and a scalar"
            )
        return


def check_errors(entry: Entry) -> None:
    """Bad arguments: refused with the type of the CPU's error."""
    for number, wrong in enumerate(entry.op.error_inputs("cpu")):
        sample = wrong.sample_input
        if not usable(sample):
            continue
        device, cpu = both_sides(entry, sample)
        _, error = outcome(lambda cpu=cpu: cpu(entry.op.op))
        if error is None:  # an error of other devices
            continue
        _, ours = outcome(lambda device=device: device(entry.op.op))
        assert ours is not None, f"error input {number}: nothing raised, want {error}"
        assert same_error(ours, error), f"error input {number}: {ours}, want {error}"


def run(entry: Entry) -> tuple[int, list[str]]:
    """All checks that the entry has.

    Returns the number of samples, and the operators that ran on the CPU in their
    forward and backward passes.
    """
    op, dtype = entry.op, entry.dtype
    torch.tvarant.reset_fallback_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ran = check_forward(entry)
        if op.supports_autograd and dtype in (torch.float32, torch.float64):
            if entry.values:
                check_gradients(entry)
        fallbacks = sorted(torch.tvarant.fallback_stats())
        check_noncontiguous(entry)
        if op.supports_out:
            check_out(entry)
        if op.get_inplace() is not None:
            check_in_place(entry)
        scalars = isinstance(op, BinaryUfuncInfo) and op.supports_rhs_python_scalar
        if scalars and dtype.is_floating_point:
            check_scalar_operands(entry)
        if dtype == torch.float32 and op.error_inputs_func is not None:
            check_errors(entry)
    return ran, fallbacks
