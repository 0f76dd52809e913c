"""Convolutions: shapes, layouts, dtypes, gradients of first and second order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support import (
    DEVICE,
    FLOATS,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
    to_device,
)
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("no_fallback")

# x sizes, weight sizes, options
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), (4, 3, 3), {}),
    ((2, 4, 20), (6, 2, 5), {"stride": 2, "padding": 2, "groups": 2}),
    ((2, 3, 7, 8), (5, 3, 3, 3), {"padding": 1}),
    ((1, 3, 7, 8), (5, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((3, 8, 6, 6), (16, 8, 1, 1), {}),
    ((2, 8, 7, 7), (4, 8, 1, 1), {"stride": 2}),
    ((2, 6, 9, 9), (6, 1, 3, 3), {"padding": 1, "groups": 6}),
    ((2, 6, 9, 9), (12, 1, 3, 3), {"padding": 1, "groups": 6, "stride": 2}),
    ((2, 6, 10, 9), (9, 2, 3, 3), {"groups": 3, "dilation": 2, "padding": 2}),
    ((2, 3, 4, 5, 6), (4, 3, 2, 3, 3), {"padding": (0, 1, 1), "stride": (1, 2, 1)}),
    ((1, 40, 14, 14), (50, 40, 3, 3), {"padding": 1}),
    ((3, 7, 7), (2, 3, 3, 3), {"padding": "same"}),
]
TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), (3, 4, 3), {"stride": 2, "output_padding": 1}),
    ((2, 4, 5, 6), (4, 3, 3, 3), {"padding": 1}),
    ((2, 4, 5, 6), (4, 3, 4, 4), {"stride": 2, "padding": 1}),
    ((2, 4, 5, 6), (4, 3, 2, 2), {"stride": 3, "groups": 2, "output_padding": (1, 2)}),
    ((2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "stride": 2, "dilation": 2}),
    ((1, 3, 3, 4, 5), (3, 2, 2, 3, 2), {"stride": (1, 2, 2)}),
]


def conv(x: torch.Tensor, w: torch.Tensor, b: Any, **options: Any) -> torch.Tensor:
    """The convolution of the weight's number of dimensions."""
    function = [F.conv1d, F.conv2d, F.conv3d][w.dim() - 3]
    if x.dim() < w.dim():
        x, w = x[: w.shape[1]], w
    return function(x, w, b, **options)


def transposed(
    x: torch.Tensor, w: torch.Tensor, b: Any, **options: Any
) -> torch.Tensor:
    function = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]
    return function[w.dim() - 3](x, w, b, **options)


def close(dtype: torch.dtype) -> dict[str, float]:
    # Sums of half types lose digits as they grow.
    rtol = {torch.bfloat16: 4e-2, torch.float16: 2e-2, torch.float64: 1e-9}
    value = rtol.get(dtype, 1e-4)
    return {"rtol": value, "atol": 6 * value}


@pytest.mark.parametrize("dtype", FLOATS)
class TestConvolution:
    @pytest.mark.parametrize("bias", [False, True])
    def test_forward_and_gradients(self, dtype: torch.dtype, bias: bool) -> None:
        with Grid() as grid:
            for kind, cases in ((conv, CASES), (transposed, TRANSPOSED)):
                for x, w, options in cases:
                    width = w[0]
                    if kind is transposed:
                        width = w[1] * options.get("groups", 1)
                    with grid.case(kind.__name__, x, w, options):
                        arguments = [make(*x, dtype=dtype), make(*w, dtype=dtype)]
                        arguments.append(make(width, dtype=dtype) if bias else None)
                        compare_gradients(
                            lambda x, w, b, k=kind, o=options: k(x, w, b, **o),
                            *arguments,
                            **close(dtype),
                            exact=True,
                            strides=False,
                        )

    def test_layouts(self, dtype: torch.dtype) -> None:
        x, w = make(2, 6, 8, 9, dtype=dtype), make(4, 6, 3, 3, dtype=dtype)
        with Grid() as grid:
            for (name, a), (other, b) in itertools.product(
                layouts(x).items(), layouts(w).items()
            ):
                with grid.case(name, other):
                    compare(
                        lambda x, w: F.conv2d(x, w, padding=1), a, b, **close(dtype)
                    )


class TestFormats:
    @pytest.mark.parametrize("which", ["x", "w", "both"])
    @pytest.mark.parametrize("groups", [1, 8])
    def test_channels_last(self, which: str, groups: int) -> None:
        x, w = make(2, 8, 9, 10), make(16, 8 // groups, 3, 3)
        if which != "w":
            x = x.to(memory_format=torch.channels_last)
        if which != "x":
            w = w.to(memory_format=torch.channels_last)
        compare_gradients(
            lambda x, w: F.conv2d(x, w, padding=1, groups=groups),
            x,
            w,
            **close(torch.float32),
            strides=False,
        )
        compare(
            lambda x, w: F.conv2d(x, w, padding=1, groups=groups),
            x,
            w,
            **close(torch.float32),
        )

    @pytest.mark.parametrize("channels", [5, 24, 70])
    @pytest.mark.parametrize("stride", [1, 2])
    def test_depthwise_channels_last(self, channels: int, stride: int) -> None:
        x = make(2, channels, 9, 10).to(memory_format=torch.channels_last)
        compare_gradients(
            lambda x, w, b: F.conv2d(
                x, w, b, stride, padding=1, groups=channels, dilation=stride
            ),
            x,
            make(channels, 1, 3, 3),
            make(channels),
            **close(torch.float32),
            strides=False,
        )

    def test_channels_last_3d(self) -> None:
        x = make(2, 4, 5, 6, 7).to(memory_format=torch.channels_last_3d)
        w = make(6, 4, 3, 3, 3)
        compare(F.conv3d, x, w, **close(torch.float32))

    def test_wide_images(self) -> None:
        compare_gradients(
            lambda x, w: F.conv2d(x, w, stride=2, padding=3),
            make(2, 3, 64, 64),
            make(64, 3, 7, 7),
            rtol=1e-3,
            atol=2e-3,
            strides=False,
        )


class TestEdges:
    def test_empty_batch(self) -> None:
        compare_gradients(
            lambda x, w, b: F.conv2d(x, w, b),
            make(0, 3, 5, 5),
            make(2, 3, 3, 3),
            make(2),
            strides=False,
        )

    def test_second_order(self) -> None:
        def penalty(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            x, w = x.requires_grad_(), w.requires_grad_()
            y = F.conv2d(x, w, padding=1, stride=2).square().sum()
            (dx,) = torch.autograd.grad(y, x, create_graph=True)
            return torch.autograd.grad(dx.square().sum(), w)[0]

        x, w = make(2, 3, 7, 7), make(4, 3, 3, 3)
        ours = penalty(*to_device((x, w)))
        assert_same(ours, penalty(x, w), rtol=1e-3, atol=1e-2, strides=False)

    def test_errors(self) -> None:
        x, w = torch.ones(1, 3, 5, 5, device=DEVICE), torch.ones(2, 3, 3, 3)
        with pytest.raises(RuntimeError):
            F.conv2d(x, w)
        with pytest.raises(RuntimeError, match="should be the same"):
            F.conv2d(x, w.to(DEVICE).double())
        with pytest.raises(RuntimeError, match="channels"):
            F.conv2d(x[:, :2], w.to(DEVICE))
        with pytest.raises(RuntimeError):
            F.conv2d(x[..., :2], w.to(DEVICE))

    def test_geometry_that_the_cpu_refuses(self) -> None:
        image, kernel = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)
        for function in (
            lambda x, w: F.conv_transpose2d(x, w, output_padding=1),
            lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=2),
            lambda x, w: F.conv_transpose2d(x, w, padding=5),
            lambda x, w: F.conv2d(x, w, dilation=0),
            lambda x, w: F.conv2d(x, w, stride=0),
            lambda x, w: F.conv2d(x, w, padding=-1),
            lambda x, w: F.conv2d(x, w[:, :, :0, :0]),
        ):
            with pytest.raises(RuntimeError):
                function(image, kernel)
            with pytest.raises(RuntimeError):
                function(image.to(DEVICE), kernel.to(DEVICE))
        torch.tvarant.synchronize()

    def test_expanded(self) -> None:
        x = make(1, 3, 1, 6).expand(2, 3, 5, 6)
        compare(F.conv2d, x, make(4, 3, 3, 3), **close(torch.float32))
