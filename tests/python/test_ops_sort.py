"""Sorting, searching, counting, running extremes, samples of categories."""

from __future__ import annotations

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
    mirror,
    raises,
)

pytestmark = pytest.mark.usefixtures("no_fallback")

NAN, INF = float("nan"), float("inf")
SPECIAL = torch.tensor([3.0, NAN, -INF, 0.0, -0.0, INF, NAN, 1.0, -1.0, 3.0])


def distinct(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """No two equal, so that the places are defined."""
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    return (order - count // 2).view(shape).to(dtype)


def whole(x: torch.Tensor) -> torch.Tensor:
    return x.round() if x.dtype.is_floating_point else x


class TestSort:
    def test_dtypes_layouts_dims(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for dim in (0, 1, -1):
                        for descending in (False, True):
                            with grid.case(dtype, layout, dim, descending):
                                compare(
                                    lambda t, d=dim, down=descending: t.sort(
                                        dim=d, descending=down, stable=True
                                    ),
                                    x,
                                )

    def test_sizes(self):
        with Grid() as grid:
            for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8):
                for shape in (
                    (1,),
                    (199,),
                    (200,),
                    (5000,),
                    (70000,),
                    (300, 40),
                    (0, 3),
                ):
                    x = make(*shape, dtype=dtype, low=-100, high=100)
                    for dim in range(len(shape)):
                        with grid.case(dtype, shape, dim):
                            compare(lambda t, d=dim: t.sort(dim=d, stable=True), x)
                            compare(
                                lambda t, d=dim: t.sort(dim=d, descending=True)[0], x
                            )
                            compare(lambda t, d=dim: t.argsort(dim=d, stable=True), x)
        compare(lambda t: t.sort(stable=True), make(300000))

    def test_special_values(self):
        for dtype in FLOATS:
            for descending in (False, True):
                compare(
                    lambda t, down=descending: t.sort(stable=True, descending=down),
                    SPECIAL.to(dtype),
                )
        ours = mirror(SPECIAL).sort(stable=True)[0].cpu()
        theirs = SPECIAL.sort(stable=True)[0]
        assert torch.equal(ours.signbit(), theirs.signbit())
        big = torch.tensor([2**63 - 1, -(2**63), 0, 2**62 + 1, 2**62])
        compare(lambda t: t.sort(), big)

    def test_scalar_out_msort_gradient(self):
        compare(lambda t: t.sort(), make())
        compare(torch.msort, make(4, 5))
        values, indices = (torch.empty(0, device=DEVICE) for _ in range(2))
        x = make(4, 5)
        torch.sort(mirror(x), out=(values, indices.long()))
        assert_same(values, x.sort()[0])
        compare_gradients(lambda t: t.sort(0)[0], distinct(4, 5))
        with pytest.raises(IndexError):
            mirror(x).sort(2)

    def test_topk(self):
        with Grid() as grid:
            for dtype in REAL:
                x = distinct(3, 4, 5, dtype=dtype)
                if dtype == torch.uint8:
                    x = x + 100
                for layout, value in layouts(x).items():
                    for dim in (0, 1, -1):
                        for k in (0, 1, 2, 3):
                            for largest in (True, False):
                                with grid.case(dtype, layout, dim, k, largest):
                                    compare(
                                        lambda t, a=(k, dim, largest): t.topk(*a), value
                                    )
            for shape, k in (((100000,), 50), ((7, 5000), 300), ((7, 5000), 4999)):
                with grid.case(shape, k):
                    compare(lambda t, n=k: t.topk(n), distinct(*shape))
                    compare(lambda t, n=k: t.topk(n, largest=False), distinct(*shape))
        compare(lambda t: t.topk(3)[0], SPECIAL)
        compare(lambda t: t.topk(1), make())
        compare_gradients(lambda t: t.topk(2, 0)[0], distinct(4, 5))
        with pytest.raises(RuntimeError, match="out of range"):
            mirror(make(3)).topk(4)


class TestStatistics:
    def test_kthvalue_median_mode(self):
        with Grid() as grid:
            for dtype in REAL:
                x = distinct(3, 4, 5, dtype=dtype)
                for layout, value in layouts(x).items():
                    for dim in (0, 1, -1):
                        for keep in (False, True):
                            with grid.case(dtype, layout, dim, keep):
                                compare(
                                    lambda t, d=dim, k=keep: t.kthvalue(2, d, k), value
                                )
                                compare(lambda t, d=dim, k=keep: t.median(d, k), value)
                                compare(
                                    lambda t, d=dim, k=keep: t.nanmedian(d, k), value
                                )
                                compare(lambda t, d=dim, k=keep: t.mode(d, k), value)
                                compare(torch.median, value)
                                compare(torch.nanmedian, value)
        many = torch.tensor([[1, 2, 2, 3, 3], [5, 4, 4, 5, 0], [1, 1, 1, 1, 1]])
        for dtype in DTYPES:
            compare(lambda t: t.mode(1)[0], many.to(dtype))
        compare(lambda t: t.mode(1), many)

    def test_special(self):
        compare(lambda t: t.median(0)[0], SPECIAL)
        compare(lambda t: t.nanmedian(0)[0], SPECIAL)
        compare(lambda t: t.kthvalue(9, 0)[0], SPECIAL)
        compare(lambda t: t.nanmedian(0)[0], torch.full((3,), NAN))
        compare(torch.median, SPECIAL)
        compare(torch.nanmedian, SPECIAL)
        compare(torch.median, torch.empty(0))
        compare(lambda t: (t.median(0), t.mode(0), t.kthvalue(1, 0)), make())
        assert_same(mirror(make(4)).expand(3, 4).median(0)[0], make(4))
        compare(torch.median, distinct(100001))
        with pytest.raises(RuntimeError, match="selected number k"):
            mirror(make(3)).kthvalue(4)
        with pytest.raises(IndexError):
            torch.empty(0, 3, device=DEVICE).median(0)

    def test_gradients(self):
        for function in (
            lambda t: t.median(0)[0],
            lambda t: t.median(),
            lambda t: t.nanmedian(1)[0],
            lambda t: t.kthvalue(2, 1)[0],
            lambda t: t.mode(1)[0],
            lambda t: t.quantile(0.3, 0),
        ):
            compare_gradients(function, distinct(4, 5))


class TestRunning:
    def test_extremes(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for dim in (0, 1, -1):
                        with grid.case(dtype, layout, dim):
                            compare(lambda t, d=dim: t.cummax(d), x)
                            compare(lambda t, d=dim: t.cummin(d), x)
        compare(lambda t: (t.cummax(0), t.cummin(0)), SPECIAL)
        compare(lambda t: (t.cummax(0), t.cummin(0)), make())
        compare(lambda t: t.cummax(1), make(0, 3))
        compare(lambda t: (t.cummax(0), t.cummin(1)), make(300, 200))
        compare_gradients(lambda t: t.cummax(1)[0], make(3, 4))

    def test_logcumsumexp(self):
        with Grid() as grid:
            for dtype in FLOATS:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for dim in (0, 1, -1):
                        with grid.case(dtype, layout, dim):
                            compare(lambda t, d=dim: t.logcumsumexp(d), x)
        compare(lambda t: t.logcumsumexp(0), torch.tensor([-INF, -INF, 1.0, 2.0, INF]))
        compare(lambda t: t.logcumsumexp(0), SPECIAL)
        compare(lambda t: t.logcumsumexp(0), make())
        compare_gradients(lambda t: t.logcumsumexp(1), make(3, 4))
        compare_gradients(lambda t: t.cumprod(1), make(3, 4))


def test_a_wrong_dim_is_refused_for_empty_tensors_too():
    x = torch.empty(0, 2)
    for function in (
        lambda x: x.logcumsumexp(3),
        lambda x: x.cumsum(3),
        lambda x: x.sort(3),
        lambda x: x.mode(3),
        lambda x: x.nanmedian(3),
        lambda x: x.unique(dim=3),
        lambda x: x.renorm(2, 3, 1.0),
        lambda x: x.flip(3),
    ):
        for tensor in (x, x.to(DEVICE)):
            with pytest.raises(IndexError):
                function(tensor)


class TestSearch:
    def test_searchsorted(self):
        with Grid() as grid:
            for dtype in REAL:
                line = make(9, dtype=dtype).sort()[0]
                lines = make(3, 9, dtype=dtype, seed=1).sort()[0]
                for right in (False, True):
                    for int32 in (False, True):
                        options = {"right": right, "out_int32": int32}
                        with grid.case(dtype, options):
                            for b, v in (
                                (line, make(4, 5, dtype=dtype, seed=2)),
                                (line, make(4, 5, dtype=dtype, seed=2).t()),
                                (
                                    line[::2],
                                    make((), dtype=dtype) if False else line[2],
                                ),
                                (lines, make(3, 7, dtype=dtype, seed=2)),
                                (lines, make(7, 3, dtype=dtype, seed=2).t()),
                                (line[:0], line),
                                (line, line[:0]),
                            ):
                                compare(
                                    lambda s, t, k=options: torch.searchsorted(
                                        s, t, **k
                                    ),
                                    b,
                                    v,
                                )
                            compare(
                                lambda t, s, k=options: torch.bucketize(t, s, **k),
                                make(3, 4, dtype=dtype),
                                line,
                            )
                            compare(
                                lambda s, k=options: torch.searchsorted(s, 1.5, **k),
                                line,
                            )
        compare(lambda s, t: torch.searchsorted(s, t), SPECIAL.sort()[0], SPECIAL)
        shuffled = make(3, 9)
        compare(
            lambda s, t, o: torch.searchsorted(s, t, sorter=o, side="right"),
            shuffled,
            make(3, 4, seed=2),
            shuffled.argsort(),
        )
        with pytest.raises(RuntimeError, match="boundaries tensor"):
            torch.searchsorted(mirror(make(2, 3)), mirror(make(4, 3)))
        with pytest.raises(RuntimeError, match="side"):
            torch.searchsorted(mirror(make(3)), mirror(make(3)), side="up")

    def test_isin(self):
        with Grid() as grid:
            for dtype in REAL:
                for invert in (False, True):
                    with grid.case(dtype, invert):
                        for tests in (make(4, dtype=dtype), make(0, dtype=dtype)):
                            compare(
                                lambda e, t, i=invert: torch.isin(e, t, invert=i),
                                make(5, 6, dtype=dtype),
                                tests,
                            )
                        compare(
                            lambda e, i=invert: torch.isin(e, 2, invert=i),
                            make(5, 6, dtype=dtype),
                        )
                        compare(
                            lambda e, i=invert: torch.isin(2, e, invert=i),
                            make(5, 6, dtype=dtype),
                        )
        compare(torch.isin, SPECIAL, SPECIAL[:3])
        compare(torch.isin, torch.arange(50000), torch.arange(0, 90000, 3))

    def test_bincount_histc(self):
        for dtype in INTS:
            x = torch.randint(0, 30, (500,)).to(dtype)
            compare(torch.bincount, x)
            compare(lambda t: t.bincount(minlength=50), x)
            compare(torch.bincount, x, make(500))
            compare(torch.bincount, x, make(500, dtype=torch.float64))
            compare(torch.bincount, x, make(500, dtype=torch.int32))
        compare(torch.bincount, torch.randint(0, 1000, (200000,)))
        compare(lambda t: t.bincount(minlength=3), torch.zeros(0, dtype=torch.long))
        with pytest.raises(RuntimeError, match="non-negative"):
            torch.tensor([1, -1], device=DEVICE).bincount()
        for dtype in (torch.float32, torch.float64):
            compare(lambda t: t.histc(10), make(1000, dtype=dtype))
            compare(lambda t: t.histc(7, -1, 2), make(30, 40, dtype=dtype).t())
            compare(lambda t: t.histc(5, -1, 2), SPECIAL.to(dtype))
            compare(lambda t: t.histc(4), torch.full((5,), 2.0, dtype=dtype))
        with pytest.raises(RuntimeError, match="finite"):
            mirror(SPECIAL).histc(4)


class TestUnique:
    def test_elements(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(whole(make(3, 4, 5, dtype=dtype))).items():
                    with grid.case(dtype, layout):
                        compare(
                            lambda t: t.unique(return_inverse=True, return_counts=True),
                            x,
                        )
                        compare(torch.unique, x)
                        compare(
                            lambda t: t.unique_consecutive(
                                return_inverse=True, return_counts=True
                            ),
                            x,
                        )
        compare(lambda t: t.unique(), SPECIAL)
        compare(lambda t: t.unique(return_inverse=True), torch.empty(0))
        compare(lambda t: t.unique(return_counts=True), torch.randint(1000, (50000,)))
        compare(lambda t: t.unique(return_inverse=True), make())

    def test_slices(self):
        with Grid() as grid:
            for dtype in DTYPES:
                x = whole(make(6, 2, 3, dtype=dtype, low=0, high=1))
                for dim in (0, 1, 2, -1):
                    with grid.case(dtype, dim):
                        compare(
                            lambda t, d=dim: t.unique(
                                dim=d, return_inverse=True, return_counts=True
                            ),
                            x,
                        )
                        compare(
                            lambda t, d=dim: t.unique_consecutive(
                                dim=d, return_inverse=True, return_counts=True
                            ),
                            x,
                        )


class TestArrange:
    def test_roll_flip(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    with grid.case(dtype, layout):
                        compare(lambda t: t.roll(2), x)
                        compare(lambda t: t.roll(-1, 1), x)
                        compare(lambda t: t.roll((1, 7), (0, 2)), x)
                        compare(lambda t: t.flip(0, 2), x)
                        compare(lambda t: t.flip(1), x)
                        compare(lambda t: t.rot90(1, (0, 1)), x)
        compare_gradients(lambda t: t.roll((1, 2), (0, 1)), make(3, 4))

    def test_repeat_interleave(self):
        counts = torch.tensor([2, 0, 3, 0])
        compare(torch.repeat_interleave, counts)
        compare(torch.repeat_interleave, counts.int())
        compare(lambda t: torch.repeat_interleave(t, output_size=5), counts)
        compare(lambda x, t: x.repeat_interleave(t, 0), make(4, 3), counts)
        compare(lambda x: x.repeat_interleave(3), make(4, 3))
        compare(torch.repeat_interleave, torch.zeros(0, dtype=torch.long))
        compare_gradients(lambda x, t: x.repeat_interleave(t, 0), make(4, 3), counts)
        with pytest.raises(RuntimeError, match="negative"):
            torch.repeat_interleave(torch.tensor([1, -1], device=DEVICE))

    def test_triangle_indices(self):
        for args in ((3, 4), (4, 3, 1), (5, 5, -2), (0, 3)):
            for function in (torch.tril_indices, torch.triu_indices):
                assert_same(function(*args, device=DEVICE), function(*args))
                assert_same(
                    function(*args, dtype=torch.int32, device=DEVICE),
                    function(*args, dtype=torch.int32),
                )


class TestSamples:
    def test_multinomial(self):
        weights = torch.tensor([[1.0, 0, 3, 6], [0, 5, 0, 0]], device=DEVICE)
        for dtype in FLOATS:
            x = weights.to(dtype)
            torch.manual_seed(3)
            first = x.multinomial(4000, replacement=True)
            torch.manual_seed(3)
            assert torch.equal(first, x.multinomial(4000, replacement=True))
            assert first.shape == (2, 4000) and first.dtype == torch.int64
            share = first[0].bincount(minlength=4).cpu() / 4000
            torch.testing.assert_close(
                share, torch.tensor([0.1, 0, 0.3, 0.6]), atol=0.04, rtol=0
            )
            assert (first[1] == 1).all().item()
        picked = torch.ones(50, device=DEVICE).multinomial(50)
        assert sorted(picked.tolist()) == list(range(50))
        assert weights.multinomial(1)[1].item() == 1
        assert weights[0].multinomial(2).shape == (2,)
        with pytest.raises(RuntimeError, match="inf|nan|< 0"):
            torch.tensor([1.0, -1.0], device=DEVICE).multinomial(1)
        with pytest.raises(RuntimeError, match="sum of probabilities"):
            torch.zeros(3, device=DEVICE).multinomial(2, replacement=True)
        with pytest.raises(RuntimeError, match="without replacement"):
            torch.ones(3, device=DEVICE).multinomial(4)
        raises(lambda: torch.ones(3, dtype=torch.long, device=DEVICE).multinomial(1))

    def test_distributions(self):
        n = 40000
        for dtype in FLOATS:
            x = torch.empty(n, dtype=dtype, device=DEVICE)
            assert abs(x.cauchy_(1, 2).float().median().item() - 1) < 0.1
            logs = x.log_normal_(0.5, 0.25).float().log()
            assert abs(logs.mean().item() - 0.5) < 0.02
            assert abs(logs.std().item() - 0.25) < 0.02
        for dtype in (*FLOATS, torch.int32, torch.int64, torch.uint8):
            x = torch.empty(n, dtype=dtype, device=DEVICE).geometric_(0.25)
            assert abs(x.double().mean().item() - 4) < 0.15
            assert x.min().item() == 1
        for fill in (
            lambda t: t.cauchy_(),
            lambda t: t.log_normal_(),
            lambda t: t.geometric_(0.5),
            lambda t: t.exponential_(),
            lambda t: t.random_(),
        ):
            torch.manual_seed(5)
            first = fill(torch.empty(100, device=DEVICE))
            torch.manual_seed(5)
            assert torch.equal(first, fill(torch.empty(100, device=DEVICE)))
        with pytest.raises(RuntimeError, match="geometric_ expects p"):
            torch.empty(3, device=DEVICE).geometric_(2)
        with pytest.raises(RuntimeError, match="floating"):
            torch.empty(3, dtype=torch.long, device=DEVICE).cauchy_()
