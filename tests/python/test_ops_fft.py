"""Fourier transforms and complex products: against the CPU, no fallback."""

from __future__ import annotations

import pytest
import torch
from support import DEVICE, Grid, assert_same, compare, compare_gradients, layouts, make

pytestmark = pytest.mark.usefixtures("no_fallback")

LOOSE = {"rtol": 1e-4, "atol": 2e-5}
fft = torch.fft


def numbers(*shape: int, dtype: torch.dtype = torch.complex64, seed: int = 0):
    real = torch.float64 if dtype == torch.complex128 else torch.float32
    return torch.complex(
        make(*shape, dtype=real, seed=seed), make(*shape, dtype=real, seed=seed + 1)
    )


def test_lengths():
    with Grid() as grid:
        for n in (1, 2, 3, 4, 5, 7, 12, 30, 31, 37, 64, 97, 100, 128, 243, 1009):
            for dtype in (torch.complex64, torch.complex128):
                x = numbers(3, n, dtype=dtype)
                with grid.case(n, dtype):
                    compare(fft.fft, x, rtol=1e-3, atol=1e-3)
                    compare(fft.ifft, x, **LOOSE)
                    compare(fft.rfft, x.real.contiguous(), rtol=1e-3, atol=1e-3)
                    compare(lambda v, n=n: fft.irfft(v, n), x[:, : n // 2 + 1], **LOOSE)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_dimensions(norm):
    x = numbers(3, 4, 6)
    with Grid() as grid:
        for dim in ((0,), (1,), (2,), (0, 1), (1, 0), (1, 2), (0, 1, 2)):
            with grid.case(dim):
                for f in (fft.fftn, fft.ifftn, fft.irfftn, fft.hfftn):
                    compare(lambda v, f=f, d=dim: f(v, dim=d, norm=norm), x, **LOOSE)
                for f in (fft.rfftn, fft.ihfftn, fft.fftn):
                    compare(
                        lambda v, f=f, d=dim: f(v, dim=d, norm=norm),
                        x.real.contiguous(),
                        **LOOSE,
                    )
        for name, value in layouts(x).items():
            with grid.case(name):
                compare(lambda v: fft.fft(v, dim=1, norm=norm), value, **LOOSE)
                compare(lambda v: fft.fft2(v, norm=norm), value, **LOOSE)
        with grid.case("padded and cut"):
            compare(lambda v: fft.fft(v, 9, norm=norm), x, **LOOSE)
            compare(lambda v: fft.rfft(v, 4, norm=norm), x.real.contiguous(), **LOOSE)
        with grid.case("empty"):  # MKL fails
            assert fft.fft(torch.empty(0, 4, device=DEVICE)).shape == (0, 4)


def test_gradients():
    x = make(3, 8)

    def both(f):
        return lambda v: torch.view_as_real(f(v))

    compare_gradients(both(fft.rfft), x, **LOOSE)
    compare_gradients(both(fft.fft), x, **LOOSE)
    compare_gradients(both(fft.rfft2), x, **LOOSE)
    compare_gradients(
        lambda v: fft.irfft(torch.view_as_complex(v), 8), make(3, 5, 2), **LOOSE
    )
    compare_gradients(lambda v: fft.irfft(fft.rfft(v) * 2, 8), x, **LOOSE)


def test_short_time_transform():
    window = torch.hann_window(16)

    def there(x, w):
        return torch.view_as_real(
            torch.stft(x, 16, hop_length=4, window=w, return_complex=True)
        )

    compare_gradients(there, make(2, 100), window, **LOOSE)

    def and_back(x, w):
        spectrum = torch.stft(x, 16, hop_length=4, window=w, return_complex=True)
        return torch.istft(spectrum, 16, hop_length=4, window=w, length=96)

    x = make(2, 96)
    torch.testing.assert_close(
        and_back(x.to(DEVICE), window.to(DEVICE)).cpu(), x, rtol=1e-4, atol=1e-4
    )


def test_errors():
    with pytest.raises(RuntimeError):
        fft.fft(torch.ones(2, 0, device=DEVICE))
    with pytest.raises(RuntimeError):
        fft.rfft(torch.ones(2, 4, device=DEVICE, dtype=torch.complex64))
    with pytest.raises(IndexError):
        fft.fft(torch.ones(2, 4, device=DEVICE), dim=2)


def test_complex_products():
    a, b, r = numbers(3, 4), numbers(4, seed=5), make(3, 4, seed=9)
    with Grid() as grid:
        for left, right in ((a, b), (a, r), (r, a), (a, 2.5), (b, a)):
            with grid.case(type(right).__name__):
                compare(torch.mul, left, right)
        with grid.case("double"):
            compare(torch.mul, a, r.double())
            compare(torch.mul, a.to(torch.complex128), b)
        for name, value in layouts(a).items():
            with grid.case(name):
                compare(torch.mul, value, b)
                compare(torch.mul, value, r)
        with grid.case("in place"):
            compare(lambda x, y: x.clone().mul_(y), a, b)
            compare(lambda x: x.clone().mul_(3), a)
            compare(lambda x: x.clone().mul_(x), a)

            def itself(x):
                x = x.clone()
                return x.mul_(x)

            compare(itself, a)
        with grid.case("out"):
            out = torch.empty(0, dtype=torch.complex64, device=DEVICE)
            torch.mul(a.to(DEVICE), b.to(DEVICE), out=out)
            assert_same(out, a * b)
        with grid.case("nan and empty"):
            compare(
                torch.mul, torch.tensor([complex("nan"), 1j]), torch.tensor([1.0, 2.0])
            )
            compare(torch.mul, numbers(0, 3), numbers(3))
