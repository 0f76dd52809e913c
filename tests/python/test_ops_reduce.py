"""Reductions and scans: every dim, keepdim, NaN, dtypes, layouts, gradients."""

from __future__ import annotations

import pytest
import torch
from support import (
    DEVICE,
    DTYPES,
    FLOATS,
    REAL,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
)

native = pytest.mark.usefixtures("no_fallback")

NAN = float("nan")
LOOSE = {"rtol": 2e-5, "atol": 2e-5}


def loose(dtype: torch.dtype) -> dict[str, float]:
    if dtype == torch.float16:
        return {"rtol": 4e-3, "atol": 4e-3}
    if dtype == torch.bfloat16:
        return {"rtol": 3e-2, "atol": 3e-2}
    return LOOSE if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}


# Take dim=, keepdim=; dims may be a tuple where `many` says so.
REDUCTIONS = {
    "sum": (torch.sum, DTYPES, True),
    "mean": (torch.mean, FLOATS, True),
    "amax": (torch.amax, DTYPES, True),
    "amin": (torch.amin, DTYPES, True),
    "any": (torch.any, DTYPES, True),
    "all": (torch.all, DTYPES, True),
    "prod": (torch.prod, DTYPES, False),
    "max": (torch.max, REAL, False),
    "min": (torch.min, REAL, False),
    "argmax": (torch.argmax, REAL, False),
    "argmin": (torch.argmin, REAL, False),
    "logsumexp": (torch.logsumexp, FLOATS, True),
    "nansum": (torch.nansum, FLOATS, True),
    "count_nonzero": (torch.count_nonzero, DTYPES, None),
    "aminmax": (
        lambda x, dim, keepdim: torch.aminmax(x, dim=dim, keepdim=keepdim),
        REAL,
        False,
    ),
    "var": (torch.var, FLOATS, True),
    "std": (torch.std, FLOATS, True),
    "vector_norm": (torch.linalg.vector_norm, FLOATS, True),
}


@native
@pytest.mark.parametrize("name", REDUCTIONS)
def test_dims_dtypes_layouts(name):
    function, dtypes, many = REDUCTIONS[name]
    with Grid() as grid:
        for dtype in dtypes:
            x = make(3, 4, 5, dtype=dtype, low=-2 if name != "prod" else 1, high=2)
            for layout, value in layouts(x).items():
                if dtype not in (torch.float32, torch.int64) and layout not in (
                    "dense",
                    "transposed",
                ):
                    continue
                dims = [0, 1, 2, -1, *([(0, 2), (1, 2), (0, 1, 2)] if many else [])]
                for dim in dims:
                    if many is None:
                        with grid.case(dtype, layout, dim):
                            compare(lambda t, d=dim: function(t, d), value)
                        continue
                    for keepdim in (False, True):
                        with grid.case(dtype, layout, dim, keepdim):
                            compare(
                                lambda t, d=dim, k=keepdim: (
                                    tuple(result)
                                    if isinstance(
                                        result := function(t, dim=d, keepdim=k), tuple
                                    )
                                    else result
                                ),
                                value,
                                **loose(dtype),
                            )


@native
@pytest.mark.parametrize(
    "name",
    "sum mean prod max min argmax argmin amax amin any all count_nonzero nansum var "
    "std".split(),
)
def test_whole_tensor(name):
    function = getattr(torch, name)
    with Grid() as grid:
        for dtype in FLOATS if name in ("mean", "var", "std", "nansum") else REAL:
            for layout, value in layouts(
                make(4, 6, dtype=dtype, low=1, high=2)
            ).items():
                with grid.case(dtype, layout):
                    compare(function, value, **loose(dtype))
            with grid.case(dtype, "scalar"):
                if name not in ("var", "std"):
                    compare(function, torch.tensor(1, dtype=dtype))


@native
def test_dtype_argument():
    compare(lambda x: x.sum(dtype=torch.float64), make(50, dtype=torch.float16))
    compare(lambda x: x.sum(0, dtype=torch.int32), make(5, 3, dtype=torch.bool))
    compare(lambda x: x.mean(dtype=torch.float32), torch.arange(9))
    compare(lambda x: x.prod(dtype=torch.float32), torch.arange(1, 9))
    compare(lambda x: x.cumsum(0, dtype=torch.float64), torch.arange(9))


@native
@pytest.mark.parametrize("size", [1, 5, 33, 1000, 5000])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_nan_wins(size, place):
    x = make(size)
    x[int(place * (size - 1))] = NAN
    for function in (
        torch.max,
        torch.min,
        torch.amax,
        torch.amin,
        torch.argmax,
        torch.argmin,
        torch.sum,
        torch.nansum,
        lambda t: tuple(torch.max(t, 0)),
        lambda t: tuple(torch.min(t.view(1, -1), 1)),
        lambda t: torch.maximum(t, t.flip(0)) if size == 1 else t.amax(0),
    ):
        compare(function, x, **LOOSE)


@native
def test_first_of_equal_values():
    """The index of the first of equal extremes, as PyTorch's CPU gives it."""
    x = torch.tensor([[1.0, 3, 3, 0], [0, 0, 0, 0], [2, 1, 2, 2]])
    for function in (torch.argmax, torch.argmin):
        compare(lambda t, f=function: f(t, 1), x)
        compare(lambda t, f=function: f(t, 0), x)
    compare(lambda t: tuple(t.max(1)), x)


@native
def test_empty():
    x = torch.ones(0, 3)
    with Grid() as grid:
        for name in ("sum", "prod", "any", "all", "mean", "nansum"):
            for dim in (0, 1):
                with grid.case(name, dim):
                    compare(lambda t, n=name, d=dim: getattr(torch, n)(t, dim=d), x)
        with grid.case("amax"):
            compare(lambda t: t.amax(1), x)
        with grid.case("logsumexp"):
            compare(lambda t: torch.logsumexp(t, 0), x)
    for function in (
        lambda t: t.max(),
        lambda t: t.argmax(),
        lambda t: t.amax(0),
        lambda t: t.max(0),
        lambda t: t.argmin(0),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            function(x.to(DEVICE))


@native
def test_integer_sums_are_exact():
    x = torch.tensor([2**53, 1, 1])
    assert x.to(DEVICE).sum().item() == 2**53 + 2
    compare(torch.sum, torch.full((1000,), 200, dtype=torch.uint8))
    compare(torch.sum, torch.full((1000,), 2**31 - 1, dtype=torch.int32))
    compare(torch.prod, torch.full((70,), 3))


@native
def test_float_sums_are_accurate():
    """No running sum in the type itself: a million times 0.1."""
    x = torch.full((1_000_000,), 0.1)
    assert x.to(DEVICE).sum().item() == pytest.approx(100_000, rel=1e-6)
    half = torch.ones(100_000, dtype=torch.float16)
    assert half.to(DEVICE).mean().item() == 1.0
    assert half[:4096].to(DEVICE).sum().item() == 4096
    assert half.bfloat16().to(DEVICE).sum(dtype=torch.float32).item() == 100_000


@native
def test_large():
    with Grid() as grid:
        for shape in ((1_000_003,), (2, 300_001), (300_001, 2), (3, 7, 20_011)):
            x = make(*shape)
            for dim in range(-1, len(shape)):
                with grid.case(shape, dim):
                    dims = None if dim < 0 else dim
                    compare(lambda t, d=dims: torch.sum(t.double(), dim=d), x)
                    compare(
                        lambda t, d=dims: torch.amax(t, dim=() if d is None else d), x
                    )
                    compare(lambda t, d=dims: torch.argmax(t, dim=d), x)


@native
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "logsumexp", "var", "std"])
def test_gradient(name):
    function = getattr(torch, name)
    with Grid() as grid:
        for dim in (0, 1, -1, (0, 2)):
            for keepdim in (False, True):
                with grid.case(dim, keepdim):
                    compare_gradients(
                        lambda t, d=dim, k=keepdim: function(t, dim=d, keepdim=k),
                        make(3, 4, 5, low=0.5, high=2),
                        rtol=1e-4,
                        atol=1e-5,
                    )
        with grid.case("whole"):
            if name not in ("logsumexp",):
                compare_gradients(
                    function, make(3, 4, low=0.5, high=2), rtol=1e-4, atol=1e-5
                )


def test_gradient_of_extremes():
    x = make(4, 5)
    compare_gradients(lambda t: t.max(1)[0], x)
    compare_gradients(lambda t: t.min(0, keepdim=True)[0], x)
    compare_gradients(lambda t: t.max(), x)
    tied = torch.tensor([[1.0, 1.0, 0.0]])
    compare_gradients(lambda t: t.amax(1), tied)
    compare_gradients(lambda t: t.max(), tied)
    compare_gradients(lambda t: t.prod(1), make(3, 4, low=0.5))
    compare_gradients(lambda t: t.prod(), torch.tensor([2.0, 0.0, 3.0]))


@native
def test_norms():
    x = make(4, 5)
    with Grid() as grid:
        for p in (1, 2, 3, 0, float("inf"), -float("inf"), 0.5):
            with grid.case(p):
                compare(lambda t, p=p: torch.linalg.vector_norm(t, p), x, **LOOSE)
                compare(lambda t, p=p: torch.linalg.vector_norm(t, p, 1), x, **LOOSE)
        with grid.case("norm"):
            compare(lambda t: t.norm(), x, **LOOSE)
            compare(lambda t: t.norm(dim=1), x, **LOOSE)
        with grid.case("gradient"):
            compare_gradients(lambda t: t.norm(dim=1), x, rtol=1e-4, atol=1e-5)


@native
class TestScan:
    def test_cumsum_cumprod(self):
        with Grid() as grid:
            for dtype in DTYPES:
                x = make(3, 4, 5, dtype=dtype, low=-1, high=2)
                for layout, value in layouts(x).items():
                    for dim in (0, 1, 2, -1):
                        with grid.case(dtype, layout, dim):
                            compare(lambda t, d=dim: t.cumsum(d), value, **loose(dtype))
                            if dtype != torch.bool:
                                compare(
                                    lambda t, d=dim: t.cumprod(d), value, **loose(dtype)
                                )
            for size in (0, 1, 33, 65_537):
                with grid.case(size):
                    compare(lambda t: t.cumsum(0), make(size, dtype=torch.float64))
            with grid.case("scalar"):
                compare(lambda t: t.cumsum(0), torch.tensor(2.0))
            with grid.case("in place"):
                compare(lambda t: t.cumsum_(1), make(3, 4), **LOOSE)

    def test_gradient(self):
        compare_gradients(lambda t: t.cumsum(1), make(3, 4), **LOOSE)
        compare_gradients(lambda t: t.cumsum(0), make(3, 4).t(), **LOOSE)


@native
def test_out():
    x = make(4, 5)
    out = torch.empty(5, device=DEVICE)
    assert torch.sum(x.to(DEVICE), 0, out=out) is out
    assert_same(out, x.sum(0), **LOOSE)
    wide = torch.zeros(4, 2, device=DEVICE)
    torch.amax(x.to(DEVICE), 1, out=wide[:, 1])
    assert torch.equal(wide[:, 1].cpu(), x.amax(1)) and wide[:, 0].sum().item() == 0
