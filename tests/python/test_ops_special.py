"""Special functions and gates: against the CPU, with edges, types, gradients."""

from __future__ import annotations

import math

import pytest
import torch
from support import (
    DEVICE,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
    mirror,
)

pytestmark = pytest.mark.usefixtures("no_fallback")

INF, NAN = math.inf, math.nan
EDGES = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, INF, -INF, NAN, 30.0, -2.5, 1e-8])
special = torch.special

# name: range of the arguments where float32 has its full accuracy.
UNARY = {
    "digamma": (0.1, 20),
    "erfinv": (-0.99, 0.99),
    "i0": (-20, 20),
    "i0e": (-20, 20),
    "i1": (-20, 20),
    "i1e": (-20, 20),
    "erfcx": (-3, 30),
    "ndtri": (0.01, 0.99),
    "log_ndtr": (-20, 5),
    "entr": (-1, 5),
    "modified_bessel_i0": (-20, 20),
    "modified_bessel_i1": (-20, 20),
    "modified_bessel_k0": (0.05, 20),
    "modified_bessel_k1": (0.05, 20),
    "scaled_modified_bessel_k0": (0.05, 20),
    "scaled_modified_bessel_k1": (0.05, 20),
    "bessel_j0": (-10, 10),
    "bessel_j1": (-10, 10),
    "bessel_y0": (0.5, 10),
    "bessel_y1": (0.5, 10),
    "spherical_bessel_j0": (-10, 10),
    "airy_ai": (-5, 8),
}
POLYNOMIALS = [
    *(f"chebyshev_polynomial_{k}" for k in "tuvw"),
    *(f"shifted_chebyshev_polynomial_{k}" for k in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]
LOOSE = {"rtol": 5e-5, "atol": 1e-5}
# Where PyTorch's own double has fewer digits.
DOUBLE = {
    name: LOOSE
    for name in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "airy_ai")
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    f = getattr(special, name)
    low, high = UNARY[name]
    with Grid() as grid:
        for dtype, tolerance in (
            (torch.float32, LOOSE),
            (torch.float64, DOUBLE.get(name, {"rtol": 1e-9, "atol": 1e-11})),
        ):
            x = make(3, 5, 4, dtype=dtype, low=low, high=high)
            for layout, value in layouts(x).items():
                with grid.case(dtype, layout):
                    compare(f, value, **tolerance)
            for shape in ((), (0,), (2, 0), (70000,)):
                with grid.case(dtype, shape):
                    compare(
                        f, make(*shape, dtype=dtype, low=low, high=high), **tolerance
                    )
        with grid.case("integers"):
            compare(f, torch.tensor([1, 2, 3]), **LOOSE)
        with grid.case("out"):
            x = make(7, low=low, high=high)
            expected = f(x)
            out = torch.empty(0, device=DEVICE)
            f(mirror(x), out=out)
            assert_same(out, expected, **LOOSE)
        with grid.case("edges"):
            compare(f, EDGES, **LOOSE)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    f = getattr(special, name)
    degrees = torch.tensor([-1.0, 0, 1, 2, 3, 4.7, 7, 9, 14])
    x = torch.cat([make(20, low=-1, high=1), torch.tensor([1.0, -1.0, 0.0, 1.5])])
    compare(f, x[:, None], degrees, rtol=1e-3, atol=1e-2)
    compare(f, x.double()[:, None], degrees.double(), rtol=1e-8, atol=1e-6)
    compare(lambda v: f(v, 3), x, **LOOSE)


def test_gamma_functions():
    a, x = make(40, low=0.1, high=20), make(30, low=0, high=40)
    for f in (torch.igamma, torch.igammac):
        compare(f, a[:, None], x, **LOOSE)
        edge_a = torch.tensor([0.0, 0, 0, 1, 1, INF, INF, -1, 1, NAN])
        edge_x = torch.tensor([0.0, 1, INF, 0, INF, 1, INF, 1, -1, 1])
        compare(f, edge_a, edge_x)
    compare(special.zeta, make(20, low=1.1, high=9), make(20, low=0.2, high=9), **LOOSE)
    compare(
        special.zeta,
        torch.tensor([1.0, 0.5, 2, 3, 2.5]),
        torch.tensor([2.0, 2, -1, -0.5, -0.5]),
    )
    for n in range(5):
        compare(
            lambda v, n=n: torch.polygamma(n, v), make(30, low=0.2, high=9), **LOOSE
        )
        compare(
            lambda v, n=n: v.clone().polygamma_(n), make(9, low=0.2, high=9), **LOOSE
        )
    with pytest.raises(RuntimeError, match="negative n"):
        torch.polygamma(-1, torch.ones(2, device=DEVICE))
    compare(lambda v: torch.mvlgamma(v, 3), make(9, low=2, high=9), **LOOSE)


def test_gradients():
    compare_gradients(torch.digamma, make(9, low=0.5, high=5), **LOOSE)
    compare_gradients(torch.erfinv, make(9, low=-0.9, high=0.9), **LOOSE)
    compare_gradients(special.i0e, make(9), **LOOSE)
    compare_gradients(special.i1, make(9), **LOOSE)
    compare_gradients(special.log_ndtr, make(9), **LOOSE)
    compare_gradients(
        lambda x: torch.polygamma(1, x), make(9, low=0.5, high=5), **LOOSE
    )
    compare_gradients(
        lambda x: torch.igamma(torch.full_like(x, 2.5).detach(), x),
        make(9, low=0.5, high=5),
        **LOOSE,
    )


def test_integers_and_neighbours():
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        a, b = (
            make(200, dtype=dtype, low=-60, high=60),
            make(200, dtype=dtype, low=-60, high=60, seed=1),
        )
        compare(torch.gcd, a, b)
        compare(torch.lcm, a, b)
        compare(lambda x, y: x.clone().gcd_(y), a, b)
    edge = torch.tensor([0, -(2**63), 6, 2**63 - 1])
    compare(torch.gcd, edge, torch.tensor([0, 0, -4, 7]))
    for f in (torch.gcd, torch.lcm):
        with pytest.raises(RuntimeError):
            f(torch.ones(2, device=DEVICE), torch.ones(2, device=DEVICE))
    for dtype in (torch.float32, torch.float64):
        compare(torch.nextafter, EDGES.to(dtype), make(11, dtype=dtype))
    compare(torch.frexp, torch.cat([EDGES, make(50)]))
    compare(torch.frexp, make(50, dtype=torch.bfloat16))
    compare(torch.ldexp, make(9), torch.arange(9))
    with pytest.raises(RuntimeError):
        torch.frexp(torch.ones(2, dtype=torch.int64, device=DEVICE))


def test_gates():
    for dim in (0, 1, -1):
        compare_gradients(lambda x, d=dim: torch.nn.functional.glu(x, d), make(4, 6, 2))
        for layout in layouts(make(4, 6, 2)).values():
            compare(lambda x, d=dim: torch.nn.functional.glu(x, d), layout)
    with pytest.raises(RuntimeError, match="must be even"):
        torch.nn.functional.glu(torch.ones(3, device=DEVICE))
    with pytest.raises(RuntimeError, match="scalars"):
        torch.nn.functional.glu(torch.ones((), device=DEVICE))
    x = torch.cat([make(20, low=0.01, high=0.99), EDGES])
    for eps in (None, 0.1, 0.0):
        compare(lambda v, e=eps: torch.logit(v, e), x)
    compare_gradients(
        lambda v: torch.logit(v, 0.1), make(20, low=0.01, high=0.99), **LOOSE
    )
    compare(
        torch.logit,
        make(5, dtype=torch.bfloat16, low=0.1, high=0.9),
        rtol=2e-2,
        atol=2e-2,
    )
    for weight in (make(5), make(1)):
        compare_gradients(torch.nn.functional.prelu, make(3, 5, 2), weight)
    compare(torch.angle, EDGES)
    compare(torch.angle, torch.tensor([-1, 0, 2]))
    module = torch.nn.RReLU()
    compare(module.eval(), make(30))
    drawn = module.train()(torch.full((1000,), -1.0, device=DEVICE))
    assert -1 / 3 - 1e-6 <= drawn.min().item() < drawn.max().item() <= -1 / 8 + 1e-6


def test_complex_from_parts():
    compare(torch.complex, make(3, 4), make(4))
    compare(torch.polar, make(3, 4, low=0), make(4))
    compare(torch.complex, make(3, dtype=torch.float64), make(3, dtype=torch.float64))
    with pytest.raises(RuntimeError):
        torch.complex(
            torch.ones(2, device=DEVICE), torch.ones(2, device=DEVICE).double()
        )


def test_windows_and_shuffles():
    for size, step in ((3, 1), (2, 2), (3, 2), (2, 3), (5, 1), (1, 1)):
        for dim in (0, 1):
            compare_gradients(
                lambda x, d=dim, s=size, t=step: x.unfold(d, s, t), make(7, 6, 2)
            )
    shuffle = torch.nn.functional.pixel_shuffle
    compare_gradients(lambda x: shuffle(x, 2), make(2, 8, 3, 3))
    compare(
        lambda x: shuffle(x, 2), make(2, 8, 3, 3).to(memory_format=torch.channels_last)
    )
    compare_gradients(
        lambda x: torch.nn.functional.pixel_unshuffle(x, 2), make(2, 3, 4, 6)
    )
    compare_gradients(
        lambda x: torch.nn.functional.channel_shuffle(x, 2), make(2, 6, 3, 3)
    )
    compare(lambda x: torch.narrow_copy(x, 1, 1, 2), make(3, 4))


def test_spaced_numbers():
    for steps in (0, 1, 2, 7):
        expected = torch.logspace(-1, 2, steps)
        assert_same(torch.logspace(-1, 2, steps, device=DEVICE), expected)
    expected = torch.logspace(0, 3, 5, base=2, dtype=torch.float64)
    assert_same(
        torch.logspace(0, 3, 5, base=2, dtype=torch.float64, device=DEVICE), expected
    )
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64):
        for f in (torch.linspace, torch.logspace):
            for low, high, steps in ((0, 2, 4), (0.9, 1.9, 1), (0.9, 2.1, 5)):
                expected = f(low, high, steps, dtype=dtype)
                assert_same(f(low, high, steps, dtype=dtype, device=DEVICE), expected)
