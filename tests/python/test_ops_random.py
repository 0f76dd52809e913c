"""Random ops: ranges, moments, types, shapes. States and seeds: test_random_state."""

from __future__ import annotations

import math

import pytest
import torch
from support import DEVICE, FLOATS, INTS, Grid

pytestmark = pytest.mark.usefixtures("no_fallback")
N = 200_000


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1234)


def moments(x: torch.Tensor) -> tuple[float, float]:
    host = x.cpu().double()
    return host.mean().item(), host.std().item()


class TestUniform:
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_rand(self, dtype):
        x = torch.rand(N, dtype=dtype, device=DEVICE)
        mean, std = moments(x)
        assert x.dtype == dtype
        assert mean == pytest.approx(0.5, abs=0.005)
        assert std == pytest.approx(math.sqrt(1 / 12), abs=0.005)
        host = x.cpu()
        assert 0 <= host.min() and host.max() < 1

    def test_uniform(self):
        x = torch.empty(N, device=DEVICE).uniform_(-3, 5).cpu()
        assert -3 <= x.min() < -2.9 and 4.9 < x.max() < 5
        assert x.mean().item() == pytest.approx(1, abs=0.03)
        with pytest.raises(RuntimeError):
            torch.empty(3, device=DEVICE).uniform_(2, 1)

    def test_is_flat(self):
        counts = torch.rand(N, device=DEVICE).cpu().histc(20, 0, 1)
        chi2 = ((counts - N / 20) ** 2 / (N / 20)).sum().item()
        assert chi2 < 45  # 19 degrees of freedom: 1 in 2000

    def test_neighbours_are_not_related(self):
        x = torch.rand(N, device=DEVICE).cpu() - 0.5
        for lag in (1, 2, 4, 1024):
            assert abs((x[:-lag] * x[lag:]).mean().item() * 12) < 0.01


class TestNormal:
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_randn(self, dtype):
        x = torch.randn(N, dtype=dtype, device=DEVICE)
        mean, std = moments(x)
        assert x.dtype == dtype
        assert mean == pytest.approx(0, abs=0.01) and std == pytest.approx(1, abs=0.01)
        host = x.cpu().double()
        assert host.isfinite().all()
        assert (host**3).mean().item() == pytest.approx(0, abs=0.05)
        assert (host**4).mean().item() == pytest.approx(3, abs=0.12)
        assert (host.abs() < 1).double().mean().item() == pytest.approx(
            0.6827, abs=0.005
        )

    def test_normal(self):
        mean, std = moments(torch.empty(N, device=DEVICE).normal_(3, 0.5))
        assert mean == pytest.approx(3, abs=0.01) and std == pytest.approx(
            0.5, abs=0.01
        )
        mean, std = moments(torch.normal(1.0, 2.0, (N,), device=DEVICE))
        assert mean == pytest.approx(1, abs=0.02) and std == pytest.approx(2, abs=0.02)
        with pytest.raises(RuntimeError):
            torch.empty(3, device=DEVICE).normal_(0, -1)

    def test_of_tensors(self):
        means = torch.arange(4.0, device=DEVICE).expand(20_000, 4)
        x = torch.normal(means, 0.1).cpu()
        torch.testing.assert_close(x.mean(0), torch.arange(4.0), atol=0.01, rtol=0)
        x = torch.normal(0.0, torch.tensor([1.0, 3.0], device=DEVICE).expand(20_000, 2))
        torch.testing.assert_close(
            x.cpu().std(0), torch.tensor([1.0, 3.0]), atol=0.06, rtol=0
        )


class TestIntegers:
    @pytest.mark.parametrize("dtype", [*INTS, torch.float32])
    def test_randint(self, dtype):
        x = torch.randint(3, 11, (N,), dtype=dtype, device=DEVICE).cpu()
        assert x.dtype == dtype
        values, counts = x.unique(return_counts=True)
        assert values.tolist() == list(range(3, 11))
        assert (counts - N / 8).abs().max() < 900

    def test_wide_ranges(self):
        x = torch.randint(-(2**62), 2**62, (N,), device=DEVICE).cpu()
        assert x.min() < -(2**61) and x.max() > 2**61
        assert len(x.unique()) == N
        assert (x % 2).double().mean().item() == pytest.approx(0.5, abs=0.01)
        x = torch.empty(N, dtype=torch.int16, device=DEVICE).random_().cpu()
        assert 0 <= x.min() and x.max() > 32_000
        x = torch.empty(N, device=DEVICE).random_(5, 7).cpu()
        assert set(x.tolist()) == {5.0, 6.0}
        with pytest.raises(RuntimeError):
            torch.randint(3, 3, (2,), device=DEVICE)

    def test_like(self):
        x = torch.zeros(5, dtype=torch.int32, device=DEVICE)
        assert torch.randint_like(x, 10).dtype == torch.int32
        assert torch.rand_like(x.float()).device == DEVICE
        assert torch.randn_like(x.float()).std().item() > 0


class TestBernoulli:
    def test_probability(self):
        for p in (0.0, 0.2, 1.0):
            x = torch.empty(N, device=DEVICE).bernoulli_(p).cpu()
            assert set(x.unique().tolist()) <= {0.0, 1.0}
            assert x.mean().item() == pytest.approx(p, abs=0.005)

    def test_of_tensor(self):
        p = torch.tensor([0.0, 0.25, 0.75, 1.0], device=DEVICE).expand(50_000, 4)
        x = torch.bernoulli(p).cpu()
        torch.testing.assert_close(
            x.mean(0), torch.tensor([0.0, 0.25, 0.75, 1.0]), atol=0.01, rtol=0
        )
        y = torch.zeros(50_000, 4, dtype=torch.bool, device=DEVICE).bernoulli_(p)
        assert y.cpu().float().mean().item() == pytest.approx(0.5, abs=0.01)


def test_all_layouts_and_sizes():
    with Grid() as grid:
        for shape in ((), (0,), (1,), (3,), (5, 7), (1025,)):
            for name in ("uniform_", "normal_", "bernoulli_"):
                x = torch.full(shape, -9.0, device=DEVICE)
                with grid.case(shape, name):
                    assert (getattr(x, name)() > -9).all().item()
        parent = torch.full((10, 10), 7.0, device=DEVICE)
        with grid.case("view"):
            parent[2:5, ::2].uniform_()
            host = parent.cpu()
            assert (host != 7).sum() == 15 and (host[2:5, ::2] < 1).all()


def test_initialisers():
    w = torch.empty(300, 200, device=DEVICE)
    torch.nn.init.kaiming_uniform_(w, nonlinearity="relu")
    assert w.abs().max().item() <= math.sqrt(6 / 200)
    torch.nn.init.xavier_normal_(w)
    assert w.std().item() == pytest.approx(math.sqrt(2 / 500), rel=0.05)
    torch.nn.init.trunc_normal_(w, std=2.0, a=-1, b=1)
    assert w.abs().max().item() <= 1
