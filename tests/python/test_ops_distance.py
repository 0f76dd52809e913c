"""Distances, renorm, cross and outer products, traces: against the CPU."""

from __future__ import annotations

import math

import pytest
import torch
from support import (
    DEVICE,
    DTYPES,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
    mirror,
)

pytestmark = pytest.mark.usefixtures("no_fallback")

ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
LOOSE = {"rtol": 1e-3, "atol": 2e-4}


@pytest.mark.parametrize("p", ORDERS)
def test_cdist(p):
    shapes = [
        ((4, 3), (5, 3)),
        ((2, 4, 3), (2, 5, 3)),
        ((2, 1, 4, 3), (3, 5, 3)),
        ((30, 8), (40, 8)),
        ((3, 200), (2, 200)),
    ]
    with Grid() as grid:
        for a, b in shapes:
            with grid.case(a, b):
                compare_gradients(
                    lambda x, y: torch.cdist(x, y, p),
                    make(*a),
                    make(*b, seed=1),
                    **LOOSE,
                )
        for a, b in (((0, 3), (5, 3)), ((4, 0), (5, 0)), ((2, 4, 3), (2, 0, 3))):
            with grid.case(a, b):
                compare(lambda x, y: torch.cdist(x, y, p), make(*a), make(*b))
        for name, x in layouts(make(2, 4, 3)).items():
            with grid.case(name):
                compare(lambda x, y: torch.cdist(x, y, p), x, make(2, 5, 3), **LOOSE)
        with grid.case("double"):
            compare_gradients(
                lambda x, y: torch.cdist(x, y, p),
                make(4, 3, dtype=torch.float64),
                make(5, 3, dtype=torch.float64, seed=1),
            )
        with grid.case("equal rows"):
            compare_gradients(
                lambda x, y: torch.cdist(x, y, p), make(3, 4), make(3, 4), **LOOSE
            )
        with grid.case("pdist"):
            compare_gradients(lambda x: torch.pdist(x, p), make(7, 5), **LOOSE)
        for n in (0, 1, 2):
            with grid.case("pdist", n):
                compare(lambda x: torch.pdist(x, p), make(n, 3), **LOOSE)


def test_cdist_modes_and_errors():
    for mode in (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    ):
        compare(
            lambda x, y, m=mode: torch.cdist(x, y, compute_mode=m),
            make(30, 4),
            make(6, 4, seed=1),
            rtol=1e-3,
            atol=1e-3,
        )
    x = make(3, 4).to(DEVICE)
    with pytest.raises(RuntimeError, match="same number of columns"):
        torch.cdist(x, x[:, :2])
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.cdist(x, x, -1.0)
    with pytest.raises(RuntimeError, match="at least 2D"):
        torch.cdist(x[0], x)


def test_renorm():
    with Grid() as grid:
        for p in (1, 2, 3, math.inf):
            for dim in (0, 1, -1):
                with grid.case(p, dim):
                    compare(
                        lambda x, p=p, d=dim: x.renorm(p, d, 2.5),
                        make(4, 5, 3),
                        **LOOSE,
                    )
        with grid.case("in place"):
            compare(lambda x: x.clone().renorm_(2, 0, 1), make(4, 5), **LOOSE)
        with grid.case("bfloat16"):
            x = make(4, 5, dtype=torch.bfloat16)
            compare(lambda x: x.renorm(2, 0, 1), x, rtol=2e-2, atol=2e-2)
        with grid.case("gradient"):
            compare_gradients(lambda x: x.renorm(2, 0, 2.5), make(4, 5), **LOOSE)


def test_cross():
    with Grid() as grid:
        for dtype in (torch.float32, torch.float64, torch.int64, torch.int8):
            a, b = make(4, 3, 2, dtype=dtype), make(4, 3, 2, dtype=dtype, seed=1)
            with grid.case(dtype):
                compare(lambda x, y: torch.linalg.cross(x, y, dim=1), a, b)
        with grid.case("broadcast"):
            compare_gradients(
                lambda x, y: torch.linalg.cross(x, y, dim=-1),
                make(4, 1, 3),
                make(1, 2, 3),
            )
    with pytest.raises(RuntimeError):
        torch.linalg.cross(make(2).to(DEVICE), make(2).to(DEVICE))
    x = make(5, 3).to(DEVICE)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.linalg.cross(x, x.flip(0), out=x)


def test_outer_products_and_traces():
    with Grid() as grid:
        for dtype in DTYPES:
            if dtype == torch.bool:
                continue
            u, v, m = (make(n, dtype=dtype) for n in (4, 5, 5))
            with grid.case("addr", dtype):
                loose = {"rtol": 2e-2, "atol": 2e-2}
                compare(torch.addr, m, u, v, **loose)
                compare(lambda m, u, v: m.addr(u, v, beta=2, alpha=3), m, u, v, **loose)
            with grid.case("outer", dtype):
                compare(torch.outer, u, v)
            with grid.case("trace", dtype):
                compare(torch.trace, make(4, 6, dtype=dtype), rtol=2e-2, atol=2e-2)
        with grid.case("addr", "beta 0"):
            nan = torch.full((4, 5), math.nan)
            compare(lambda m, u, v: m.addr(u, v, beta=0), nan, make(4), make(5))
        with grid.case("addr", "out"):
            out = torch.empty(0, device=DEVICE)
            torch.addr(
                make(5).to(DEVICE), make(4).to(DEVICE), make(5).to(DEVICE), out=out
            )
            assert_same(out, torch.addr(make(5), make(4), make(5)))
        with grid.case("addr", "gradient"):
            compare_gradients(torch.addr, make(4, 5), make(4), make(5), **LOOSE)
        with grid.case("addbmm"):
            compare_gradients(
                torch.addbmm, make(4, 5), make(3, 4, 2), make(3, 2, 5), **LOOSE
            )
            compare(
                lambda m, a, b: m.clone().addbmm_(a, b, beta=2, alpha=0.5),
                make(4, 5),
                make(3, 4, 2),
                make(3, 2, 5),
                **LOOSE,
            )
        with grid.case("trace", "gradient"):
            compare_gradients(torch.trace, make(3, 4))
        with grid.case("kron, tensordot, einsum"):
            compare_gradients(torch.kron, make(2, 3), make(3, 2), **LOOSE)
            compare_gradients(
                lambda a, b: torch.tensordot(a, b, 2),
                make(2, 3, 4),
                make(3, 4, 5),
                **LOOSE,
            )
            compare_gradients(
                lambda a, b: torch.einsum("bij,bjk->ik", a, b),
                make(2, 3, 4),
                make(2, 4, 5),
                **LOOSE,
            )
        with grid.case("cov, corrcoef, trapezoid, dist"):
            compare_gradients(torch.cov, make(3, 9), **LOOSE)
            compare_gradients(torch.corrcoef, make(3, 9), **LOOSE)
            compare_gradients(lambda x: torch.trapezoid(x, dim=0), make(5, 4), **LOOSE)
            compare_gradients(torch.dist, make(5, 4), make(4), **LOOSE)
    with pytest.raises(RuntimeError, match="expected a matrix"):
        torch.trace(torch.ones(3, device=DEVICE))
    with pytest.raises(RuntimeError, match="1-D"):
        torch.addr(*(torch.ones(2, 2, device=DEVICE),) * 3)


def test_lists_of_norms():
    tensors = [make(n, m) for n, m in ((3, 4), (1, 1), (70, 900), (5, 2))]
    on_device = [mirror(t) for t in tensors]
    for order in (1, 2, 3, math.inf):
        expected = torch._foreach_norm(tensors, order)
        assert_same(
            torch._foreach_norm(on_device, order), expected, rtol=1e-5, atol=1e-5
        )
    assert_same(
        torch._foreach_norm(on_device, 2, dtype=torch.float64),
        torch._foreach_norm(tensors, 2, dtype=torch.float64),
    )
    assert_same(torch._foreach_max(on_device), torch._foreach_max(tensors))
    halves = [t.bfloat16() for t in tensors]
    assert_same(
        torch._foreach_norm([mirror(t) for t in halves]),
        torch._foreach_norm(halves),
        rtol=2e-2,
        atol=1e-2,
    )
    assert torch._foreach_norm([torch.empty(0, device=DEVICE)])[0].item() == 0
