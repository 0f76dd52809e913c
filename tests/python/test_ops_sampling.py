"""Sampling by a grid, antialiased resampling, fractional pooling, histograms,
segments: against the CPU, with gradients, all on the device.
"""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, Grid, compare, compare_gradients, make, raises

pytestmark = pytest.mark.usefixtures("no_fallback")

LOOSE = {"rtol": 2e-5, "atol": 2e-5}


def sampled(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, places, align_corners=False)


def test_grid_sample():
    with Grid() as grid:
        for mode, padding, align in itertools.product(
            ("bilinear", "nearest", "bicubic"),
            ("zeros", "border", "reflection"),
            (False, True),
        ):
            for x, places in (
                (make(2, 3, 5, 7), make(2, 4, 6, 2, low=-1.4, high=1.4)),
                (make(1, 20, 1, 9), make(1, 1, 3, 2, low=-2, high=2)),
                (make(2, 3, 4, 5, 6), make(2, 3, 2, 4, 3, low=-1.4, high=1.4)),
            ):
                if mode == "bicubic" and x.dim() == 5:
                    continue
                for dtype in (torch.float32, torch.float64):
                    with grid.case(mode, padding, align, x.dim(), dtype):
                        compare_gradients(
                            lambda v, g, m=mode, p=padding, a=align: F.grid_sample(
                                v, g, m, p, a
                            ),
                            x.to(dtype),
                            places.to(dtype),
                            rtol=1e-4,
                            atol=1e-4,
                        )
        x, places = make(2, 3, 5, 7), make(2, 4, 6, 2)
        with grid.case("channels last"):
            compare(
                lambda v, g: F.grid_sample(v, g, align_corners=False),
                x.to(memory_format=torch.channels_last),
                places.transpose(1, 2).contiguous().transpose(1, 2),
                **LOOSE,
            )
        with grid.case("affine"):
            compare_gradients(
                lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=False),
                make(2, 2, 3),
                **LOOSE,
            )
        with grid.case("empty"):
            compare(
                lambda v, g: F.grid_sample(v, g, align_corners=False), x, places[:, :0]
            )
        with grid.case("not a number"):
            compare(
                lambda v, g: F.grid_sample(v, g, align_corners=False),
                x,
                torch.full_like(places, 1e30),
            )
    raises(lambda: sampled(x.to(DEVICE), places.double().to(DEVICE)))
    raises(lambda: sampled(x.to(DEVICE), places))
    raises(lambda: sampled(x.to(DEVICE), places[:1].to(DEVICE)))


def test_grid_sample_of_places_alone():
    """One gradient without the other."""
    for wanted in (0, 1):
        grads = []
        for device in ("cpu", DEVICE):
            tensors = [make(1, 2, 4, 4).to(device), make(1, 3, 3, 2).to(device)]
            tensors[wanted].requires_grad_()
            F.grid_sample(*tensors, align_corners=True).square().sum().backward()
            grads.append(tensors[wanted].grad.cpu())
        torch.testing.assert_close(grads[1], grads[0], **LOOSE)


def test_antialiased():
    with Grid() as grid:
        for mode, align in itertools.product(("bilinear", "bicubic"), (False, True)):
            for shape, size in (
                ((2, 3, 8, 9), (4, 3)),
                ((1, 2, 5, 33), (11, 4)),
                ((1, 2, 6, 6), (6, 6)),
                ((1, 1, 16, 1), (1, 5)),
            ):
                for dtype in (torch.float32, torch.float64):
                    with grid.case(mode, align, shape, size, dtype):
                        compare_gradients(
                            lambda v, m=mode, a=align, s=size: F.interpolate(
                                v, s, mode=m, align_corners=a, antialias=True
                            ),
                            make(*shape, dtype=dtype),
                            rtol=5e-5,
                            atol=5e-5,
                        )
            with grid.case(mode, align, "scale"):
                compare(
                    lambda v, m=mode: F.interpolate(
                        v, scale_factor=(0.4, 1.7), mode=m, antialias=True
                    ),
                    make(1, 2, 9, 10),
                    **LOOSE,
                )
            with grid.case(mode, align, "channels last"):
                compare(
                    lambda v, m=mode: F.interpolate(v, (3, 4), mode=m, antialias=True),
                    make(1, 8, 9, 10).to(memory_format=torch.channels_last),
                    **LOOSE,
                )


def test_fractional_max_pool():
    with Grid() as grid:
        for dtype in (torch.float32, torch.float64):
            for shape, window, size in (
                ((2, 3, 9, 11), (2, 3), (4, 5)),
                ((3, 7, 7), (1, 2), (7, 1)),
                ((1, 2, 5, 5), (5, 5), (1, 1)),
            ):
                x = make(*shape, dtype=dtype)
                samples = make(
                    shape[0] if len(shape) == 4 else 1,
                    shape[-3],
                    2,
                    dtype=dtype,
                    low=0,
                    high=0.999,
                )
                with grid.case(dtype, shape):
                    compare_gradients(
                        lambda v, s=samples, w=window, o=size: (
                            F.fractional_max_pool2d_with_indices(
                                v, w, o, _random_samples=s.to(v.device)
                            )
                        ),
                        x,
                    )
            x = make(2, 3, 6, 7, 8, dtype=dtype)
            samples = make(2, 3, 3, dtype=dtype, low=0, high=0.999)
            with grid.case(dtype, "volume"):
                compare_gradients(
                    lambda v, s=samples: F.fractional_max_pool3d_with_indices(
                        v, (2, 2, 3), (3, 2, 4), _random_samples=s.to(v.device)
                    ),
                    x,
                )
    x = make(1, 1, 4, 4).to(DEVICE)
    raises(lambda: F.fractional_max_pool2d(x, 5, output_size=1))


def test_histogram():
    x = make(200)
    x[::17] = 3.0
    edges = torch.tensor([-2.0, -0.5, 0.0, 0.25, 3.0])
    with Grid() as grid:
        for density, weighted in itertools.product((False, True), (False, True)):
            weight = make(200, low=0, high=1) if weighted else None
            for dtype in (torch.float32, torch.float64):
                w = None if weight is None else weight.to(dtype)

                def of(value: torch.Tensor, w=w) -> torch.Tensor | None:
                    return None if w is None else w.view(value.shape).to(value.device)

                options = {"density": density}
                with grid.case(dtype, density, weighted, "edges"):
                    compare(
                        lambda v, e, o=options, of=of: torch.histogram(
                            v, e, weight=of(v), **o
                        ),
                        x.to(dtype),
                        edges.to(dtype),
                        **LOOSE,
                    )
                for limits in (None, (-1.0, 2.0), (1.0, 1.0)):
                    with grid.case(dtype, density, weighted, limits):
                        compare(
                            lambda v, o=options, of=of, r=limits: torch.histogram(
                                v, 7, range=r, weight=of(v), **o
                            ),
                            x.to(dtype).view(20, 10),
                            **LOOSE,
                        )
        with grid.case("not numbers"):
            bad = x.clone()
            bad[3], bad[4] = float("nan"), float("inf")
            compare(lambda v, e: torch.histogram(v, e), bad, edges)
        with grid.case("out"):
            compare(
                lambda v: torch.histogram(v, 4, out=(v.new_empty(0), v.new_empty(0))),
                x,
                **LOOSE,
            )
        with grid.case("empty"):
            compare(lambda v: torch.histogram(v, 3), x[:0])


def test_histogramdd():
    x = make(60, 3)
    with Grid() as grid:
        for density in (False, True):
            for bins in (4, [2, 3, 4]):
                with grid.case(density, bins):
                    compare(
                        lambda v, d=density, b=bins: torch.histogramdd(v, b, density=d),
                        x,
                        **LOOSE,
                    )
            with grid.case(density, "edges"):
                compare(
                    lambda v, a, b, d=density: torch.histogramdd(
                        v[:, :2], [a, b], density=d
                    ),
                    x,
                    torch.tensor([-1.0, 0.0, 2.0]),
                    torch.tensor([-3.0, 1.0, 1.5, 3.0]),
                    **LOOSE,
                )
        with grid.case("weights, range"):
            compare(
                lambda v, w: torch.histogramdd(
                    v, [2, 2, 2], range=[-1.0, 1, -2, 2, -3, 3], weight=w
                ),
                x,
                make(60, low=0, high=1),
                **LOOSE,
            )


def test_segment_reduce():
    with Grid() as grid:
        for reduce, initial, dtype in itertools.product(
            ("sum", "mean", "max", "min", "prod"),
            (None, 2.0),
            (torch.float32, torch.float64, torch.bfloat16),
        ):
            tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype.itemsize == 2 else LOOSE
            options = {"initial": initial}
            with grid.case(reduce, initial, dtype, "lengths"):
                compare_gradients(
                    lambda v, n, r=reduce, o=options: torch.segment_reduce(
                        v, r, lengths=n, **o
                    ),
                    make(7, 4, dtype=dtype),
                    torch.tensor([3, 1, 3]),
                    **tolerance,
                )
            with grid.case(reduce, initial, dtype, "rows"):
                compare_gradients(
                    lambda v, n, r=reduce, o=options: torch.segment_reduce(
                        v, r, lengths=n, axis=1, **o
                    ),
                    make(2, 6, 3, dtype=dtype),
                    torch.tensor([[4, 2], [1, 5]]),
                    **tolerance,
                )
            with grid.case(reduce, initial, dtype, "offsets"):
                compare(
                    lambda v, n, r=reduce, o=options: torch.segment_reduce(
                        v, r, offsets=n, **o
                    ),
                    make(7, dtype=dtype),
                    torch.tensor([0, 2, 5, 7]),
                    **tolerance,
                )
    x = make(5).to(DEVICE)
    raises(lambda: torch.segment_reduce(x, "sum"))
    raises(lambda: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 3])))
