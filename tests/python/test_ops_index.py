"""Indexing, joining and building: cat, gather, scatter, masks, ranges, triangles."""

from __future__ import annotations

import itertools

import pytest
import torch
from support import (
    DEVICE,
    DTYPES,
    FLOATS,
    INTS,
    REAL,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
)

pytestmark = pytest.mark.usefixtures("no_fallback")


class TestCat:
    def test_dtypes_layouts_dims(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(2, 3, 4, dtype=dtype)).items():
                    for dim in (0, 1, 2, -1):
                        with grid.case(dtype, layout, dim):
                            compare(
                                lambda a, b, d=dim: torch.cat([a, b, a], d),
                                x,
                                make(2, 3, 4, dtype=dtype),
                            )
                            compare(
                                lambda a, b, d=dim: torch.stack([a, b], d),
                                x,
                                make(2, 3, 4, dtype=dtype),
                            )

    def test_mixed_dtypes(self):
        with Grid() as grid:
            for a, b in itertools.product(DTYPES, DTYPES):
                with grid.case(a, b):
                    compare(
                        lambda x, y: torch.cat([x, y]),
                        make(3, dtype=a),
                        make(2, dtype=b),
                    )

    def test_odd_lists(self):
        compare(lambda x, y: torch.cat([y, x]), make(2, 3), torch.empty(0))
        compare(lambda x: torch.cat([x]), make(2, 3).t())
        compare(lambda x: torch.cat([x[:0], x, x[:0]]), make(2, 3))
        compare(lambda x: torch.cat([x] * 300), make(2, 3))
        compare(lambda x: torch.cat([x, x[:, :1]], 1), make(4, 5))
        with pytest.raises((RuntimeError, ValueError)):
            torch.cat([])

    def test_thousands(self):
        parts = [torch.full((1,), float(i), device=DEVICE) for i in range(5000)]
        assert torch.equal(torch.cat(parts).cpu(), torch.arange(5000.0))

    def test_out(self):
        x, y = make(2, 3).to(DEVICE), make(2, 3, seed=1).to(DEVICE)
        out = torch.empty(4, 3, device=DEVICE)
        assert torch.cat([x, y], out=out) is out
        assert_same(out, torch.cat([make(2, 3), make(2, 3, seed=1)]))
        parent = torch.zeros(4, 6, device=DEVICE)
        torch.cat([x, y], out=parent[:, ::2])
        assert torch.equal(parent[:, ::2], out) and parent[:, 1::2].sum().item() == 0
        with pytest.raises(RuntimeError, match="overlap|memory location"):
            torch.cat([out[:2], y], out=out)

    def test_gradient(self):
        compare_gradients(lambda a, b: torch.cat([a, b.t()], 1), make(3, 4), make(2, 3))
        compare_gradients(
            lambda a, b: torch.stack([a, b, a], 1), make(3, 4), make(3, 4, seed=1)
        )
        compare_gradients(lambda a, b: torch.hstack([a, b]), make(3), make(4))

    def test_splitters(self):
        x = make(6, 4)
        for function in (
            lambda t: t.repeat(2, 3),
            lambda t: t.tile(2, 1, 2),
            lambda t: [c * 2 for c in t.chunk(4)],
            lambda t: torch.vstack([t, t]),
            lambda t: torch.dstack([t, t]),
            lambda t: torch.column_stack([t, t]),
            lambda t: torch.stack(t.unbind(1)[::-1]),
            lambda t: torch.block_diag(t, t),
        ):
            compare(function, x)


class TestSelect:
    def test_index_select(self):
        index = torch.tensor([2, 0, 2, 1])
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for dim in (0, 1, 2, -2):
                        with grid.case(dtype, layout, dim):
                            compare(lambda t, i, d=dim: t.index_select(d, i), x, index)
            for name, i in {
                "int32": index.int(),
                "empty": index[:0],
                "scalar": index[0],
                "gappy": torch.tensor([2, 9, 0, 9])[::2],
            }.items():
                with grid.case(name):
                    compare(lambda t, i: t.index_select(0, i), make(3, 4), i)
        compare_gradients(lambda t, i: t.index_select(1, i), make(3, 4), index)

    def test_gather(self):
        x = make(3, 4, 5)
        with Grid() as grid:
            for dtype in DTYPES:
                index = torch.randint(0, 3, (2, 3, 4))
                for layout, value in layouts(x.to(dtype)).items():
                    for dim in (0, 1, 2):
                        with grid.case(dtype, layout, dim):
                            compare(lambda t, i, d=dim: t.gather(d, i), value, index)
            with grid.case("strided index"):
                compare(
                    lambda t, i: t.gather(0, i),
                    make(5, 4),
                    torch.zeros(4, 3).long().t(),
                )
            with grid.case("empty"):
                compare(lambda t, i: t.gather(0, i), make(5), torch.zeros(0).long())
        compare_gradients(
            lambda t, i: t.gather(1, i),
            make(3, 4),
            torch.tensor([[0, 0], [1, 3], [2, 2]]),
        )
        compare(lambda t, i: t.take_along_dim(i, 1), make(3, 4), make(3, 4).argsort(1))

    def test_scatter_add_and_index_add(self):
        index = torch.tensor([[0, 0, 2], [1, 1, 1]])
        with Grid() as grid:
            for dtype in REAL:
                with grid.case(dtype, "scatter_add"):
                    compare(
                        lambda t, i, s: t.scatter_add(1, i, s),
                        make(2, 4, dtype=dtype),
                        index,
                        make(2, 3, dtype=dtype, low=0, high=3),
                    )
        compare_gradients(
            lambda t, i, s: t.scatter_add(1, i, s), make(2, 4), index, make(2, 3)
        )

    def test_index_out_of_range_names_the_op(self):
        x = torch.ones(4, 3, device=DEVICE)
        bad = torch.tensor([0, 4], device=DEVICE)
        with pytest.raises((IndexError, RuntimeError), match="index_select"):
            x.index_select(0, bad)
            torch.tvarant.synchronize()
        with pytest.raises((IndexError, RuntimeError), match="gather"):
            x.gather(0, bad[None])
            torch.tvarant.synchronize()
        assert (x + 1).sum().item() == 24


class TestRanges:
    @pytest.mark.parametrize("dtype", REAL)
    def test_arange(self, dtype):
        for args in ((5,), (0,), (2, 9), (2, 9, 3), (9, 2, -2), (3, 3)):
            if dtype == torch.uint8 and min(args) < 0:
                continue
            expected = torch.arange(*args, dtype=dtype)
            assert_same(torch.arange(*args, dtype=dtype, device=DEVICE), expected)

    def test_arange_of_floats_and_large(self):
        for args in ((0.0, 1.0, 0.1), (1.5, -1.5, -0.25), (0.5,), (2**40, 2**40 + 3)):
            assert_same(
                torch.arange(*args, device=DEVICE),
                torch.arange(*args),
                rtol=0,
                atol=1e-6,
            )
        x = torch.arange(1_000_000, dtype=torch.float64, device=DEVICE)
        assert x[-1].item() == 999_999
        with pytest.raises(RuntimeError):
            torch.arange(0, 5, -1, device=DEVICE)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_linspace(self, dtype):
        for args in (
            (0, 1, 5),
            (3, -3, 7),
            (2, 2, 3),
            (0, 1, 1),
            (0, 1, 0),
            (0, 10, 101),
        ):
            assert_same(
                torch.linspace(*args, dtype=dtype, device=DEVICE),
                torch.linspace(*args, dtype=dtype),
                rtol=1e-6,
                atol=1e-6,
            )

    def test_eye_full_and_grids(self):
        for size in ((3,), (2, 4), (4, 2), (0,), (0, 3)):
            for dtype in (torch.float32, torch.int64, torch.bool):
                assert_same(
                    torch.eye(*size, dtype=dtype, device=DEVICE),
                    torch.eye(*size, dtype=dtype),
                )
        a, b = torch.arange(3, device=DEVICE), torch.arange(4, device=DEVICE)
        assert_same(
            torch.meshgrid(a, b, indexing="ij"),
            torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij"),
        )
        assert_same(torch.full((2,), 2**62, device=DEVICE), torch.full((2,), 2**62))
        assert_same(torch.full((2,), True, device=DEVICE), torch.full((2,), True))


class TestTriangles:
    def test_tril_triu(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(2, 4, 5, dtype=dtype)).items():
                    for diagonal in (-9, -1, 0, 2, 9):
                        with grid.case(dtype, layout, diagonal):
                            compare(lambda t, d=diagonal: t.tril(d), x)
                            compare(lambda t, d=diagonal: t.triu(d), x)
            with grid.case("in place"):
                compare(lambda t: t.tril_(1), make(4, 4).t())
            with grid.case("empty"):
                compare(torch.tril, make(0, 3))
                compare(torch.triu, make(3, 0))
        compare_gradients(torch.tril, make(4, 5))
        compare_gradients(lambda t: t.triu(1), make(2, 4, 4))

    def test_causal_mask(self):
        compare(
            lambda t: t.masked_fill(torch.ones_like(t).triu(1).bool(), -1e9), make(5, 5)
        )


class TestFill:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_values(self, dtype):
        for layout, x in layouts(make(3, 4, dtype=dtype)).items():
            compare(lambda t: t.fill_(1), x.clone()), layout
            compare(lambda t: t.zero_(), x.clone())
            compare(lambda t: t.fill_(torch.tensor(2)), x.clone())

    def test_special_values(self):
        for value in (float("nan"), float("inf"), -0.0, 1e-45):
            ours = torch.full((3,), value, device=DEVICE).cpu()
            expected = torch.full((3,), value)
            assert torch.equal(ours.view(torch.int32), expected.view(torch.int32))
        for dtype in INTS:
            info = torch.iinfo(dtype)
            for value in (info.min, info.max):
                assert (
                    torch.full((2,), value, dtype=dtype, device=DEVICE).tolist()
                    == [value] * 2
                )
        with pytest.raises(RuntimeError, match="overflow"):
            torch.full((2,), 300, dtype=torch.int8, device=DEVICE)

    def test_device_scalar(self):
        x = torch.zeros(3, device=DEVICE)
        x.fill_(torch.tensor(4.0, device=DEVICE))
        assert x.tolist() == [4, 4, 4]
        with pytest.raises(RuntimeError):
            x.fill_(torch.ones(2, device=DEVICE))


class TestGradientsOfDtypes:
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_a_chain(self, dtype):
        def chain(x, w):
            y = torch.cat([x, w], 0).cumsum(0).tril()
            return y.index_select(0, torch.tensor([0, 3, 3], device=x.device)) * 2

        compare_gradients(
            chain, make(2, 4, dtype=dtype), make(2, 4, dtype=dtype, seed=1)
        )
