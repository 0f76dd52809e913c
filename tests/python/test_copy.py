"""Copies in every direction: dtypes, strides, offsets, broadcasts, conj and neg."""

from __future__ import annotations

import itertools

import pytest
import torch
from support import DEVICE, DTYPES, Grid, assert_same, layouts, make, mirror

pytestmark = pytest.mark.usefixtures("no_fallback")

ALL = (*DTYPES, torch.complex64, torch.complex128)
CPU = torch.device("cpu")
DIRECTIONS = [(CPU, DEVICE), (DEVICE, CPU), (DEVICE, DEVICE)]


def place(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor, or its mirror on the device, in the same layout."""
    if device != CPU:
        return mirror(x)
    whole = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return whole.clone().as_strided(x.size(), x.stride(), x.storage_offset())


def whole(x: torch.Tensor) -> torch.Tensor:
    """All elements of the storage, what lies between those of `x` included."""
    count = x.untyped_storage().nbytes() // x.element_size()
    return x.as_strided((count,), (1,), 0).cpu()


def check(target: torch.Tensor, source: torch.Tensor, src: torch.device, dst):
    """target.copy_(source) like the CPU's, and nothing else is written."""
    expected = place(target, CPU)
    ours = place(target, dst)
    ours.copy_(place(source, src))
    expected.copy_(source)
    torch.testing.assert_close(
        whole(ours), whole(expected), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("src,dst", DIRECTIONS, ids=["up", "down", "across"])
class TestDirections:
    def test_all_pairs_of_dtypes(self, src, dst):
        with Grid() as grid:
            for a, b in itertools.product(ALL, ALL):
                if a.is_complex and not b.is_complex:
                    continue  # PyTorch warns about the part it drops
                x = make(3, 5, dtype=a, low=0 if b == torch.uint8 else -100, high=100)
                with grid.case(a, "->", b):
                    check(torch.zeros(3, 5, dtype=b), x, src, dst)
                with grid.case(a, "->", b, "transposed"):
                    check(torch.zeros(5, 3, dtype=b).t(), x, src, dst)

    def test_all_pairs_of_layouts(self, src, dst):
        with Grid() as grid:
            for shape in ((7,), (3, 5), (2, 3, 4), (2, 3, 2, 5)):
                sources = layouts(make(*shape))
                targets = layouts(torch.zeros(shape))
                for a, b in itertools.product(sources, targets):
                    with grid.case(shape, a, "->", b):
                        check(targets[b], sources[a], src, dst)

    def test_layouts_with_conversion(self, src, dst):
        with Grid() as grid:
            for dtype in (torch.int64, torch.bfloat16, torch.bool):
                sources = layouts(make(3, 5))
                targets = layouts(torch.zeros(3, 5, dtype=dtype))
                for a, b in itertools.product(sources, targets):
                    with grid.case(dtype, a, "->", b):
                        check(targets[b], sources[a], src, dst)

    def test_broadcast(self, src, dst):
        with Grid() as grid:
            for shape in ((), (1,), (5,), (3, 1), (1, 5), (1, 1, 1)):
                if len(shape) > 2:
                    continue
                for name, target in layouts(torch.zeros(3, 5)).items():
                    with grid.case(shape, name):
                        check(target, make(*shape), src, dst)

    def test_conj_and_neg_bits(self, src, dst):
        z = make(3, 4, dtype=torch.complex64)
        with Grid() as grid:
            for name, view in {
                "conj": lambda t: t.conj(),
                "neg": lambda t: torch._neg_view(t),
                "conj neg": lambda t: torch._neg_view(t.conj()),
                "conj t": lambda t: t.conj().t().contiguous().t(),
                "conj row": lambda t: t.conj()[1:2],
            }.items():
                for dtype in (torch.complex64, torch.complex128):
                    source = view(z)
                    moved = view(z.to(src))
                    expected = torch.zeros(3, 4, dtype=dtype)
                    ours = torch.zeros(3, 4, dtype=dtype, device=dst)
                    with grid.case("from", name, dtype):
                        expected.copy_(source)
                        ours.copy_(moved)
                        assert torch.equal(ours.cpu(), expected)
                    with grid.case("into", name, dtype):
                        if name in ("conj", "neg"):
                            view(expected).copy_(z)
                            view(ours).copy_(z.to(src))
                        assert torch.equal(ours.cpu(), expected)
            imag = z.conj().imag  # a real view with the negative bit
            assert imag.is_neg()
            with grid.case("negative real"):
                ours = torch.zeros(3, 4, device=dst)
                ours.copy_(z.to(src).conj().imag)
                assert torch.equal(ours.cpu(), imag)

    def test_sizes(self, src, dst):
        with Grid() as grid:
            for size in (0, 1, 2, 15, 16, 17, 4095, 4097, 16_384, 16_385, 70_001):
                with grid.case(size):
                    check(torch.zeros(size), make(size), src, dst)
                with grid.case(size, "gappy"):
                    check(torch.zeros(2 * size)[::2], make(size), src, dst)

    def test_shape_must_fit(self, src, dst):
        with pytest.raises(RuntimeError):
            torch.zeros(3, device=dst).copy_(torch.zeros(4, device=src))
        with pytest.raises(RuntimeError):
            torch.zeros(3, device=dst).copy_(torch.zeros(2, 3, device=src))


class TestTo:
    @pytest.mark.parametrize("size", [2**22 - 1, 2**22, 2**22 + 1, 2**26])
    def test_large_transfers_are_exact(self, size):
        x = torch.randint(0, 256, (size,), dtype=torch.uint8)
        assert torch.equal(x.to(DEVICE).cpu(), x)

    def test_gives_strides_of_the_cpu(self):
        for name, x in layouts(make(2, 3, 4, 5)).items():
            for dtype in (torch.float32, torch.float16):
                expected = x.to(dtype, copy=True)
                assert_same(x.to(DEVICE, dtype), expected), name
                assert mirror(x).to("cpu", dtype).stride() == expected.stride()
                assert_same(mirror(x).to(dtype, copy=True), expected)

    def test_same_device_is_the_same_object(self):
        x = make(3).to(DEVICE)
        assert x.to(DEVICE) is x and x.to("tvarant") is x and x.tvarant() is x
        assert x.to(DEVICE, copy=True) is not x

    def test_clone_keeps_layout(self):
        for name, x in layouts(make(2, 3, 4, 5)).items():
            for memory_format in (
                torch.preserve_format,
                torch.contiguous_format,
                torch.channels_last,
            ):
                expected = x.clone(memory_format=memory_format)
                (
                    assert_same(mirror(x).clone(memory_format=memory_format), expected),
                    name,
                )

    def test_out_of_range_conversion_does_not_crash(self):
        x = torch.tensor([1e30, -1e30, float("nan"), float("inf")], device=DEVICE)
        for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8):
            assert x.to(dtype).cpu().dtype == dtype
        assert x.to(torch.float16).isinf().cpu().tolist() == [True, True, False, True]
        assert x.bool().cpu().tolist() == [True] * 4

    def test_rounding_of_half_types(self):
        # Ties to even, subnormals, overflow, the last finite number.
        values = [
            1 + 2**-11,
            1 + 3 * 2**-11,
            2**-24,
            2**-25,
            2**-26,
            65504,
            65519,
            65520,
        ]
        values += [1 + 2**-8, 1 + 3 * 2**-8, 3.3895e38, -0.0, 1e-45]
        x = torch.tensor(values + [-v for v in values])
        for dtype in (torch.float16, torch.bfloat16):
            ours = x.to(DEVICE).to(dtype)
            assert_same(ours, x.to(dtype), rtol=0, atol=0)
            assert torch.equal(ours.cpu().signbit(), x.to(dtype).signbit())
            assert_same(ours.float(), x.to(dtype).float(), rtol=0, atol=0)
            double = x.double().to(DEVICE).to(dtype)
            assert_same(double, x.double().to(dtype), rtol=0, atol=0)

    def test_cpu_scalar_into_device(self):
        x = torch.zeros(3, device=DEVICE)
        x.copy_(torch.tensor(2.5))
        x[1] = torch.tensor(7)
        assert x.tolist() == [2.5, 7.0, 2.5]

    def test_self_copy(self):
        x = make(4, 4).to(DEVICE)
        x.copy_(x)
        assert_same(x, make(4, 4))

    def test_overlapping_source(self):
        with pytest.raises(RuntimeError):
            x = torch.zeros(1, device=DEVICE).expand(3)
            x.copy_(torch.arange(3.0))
