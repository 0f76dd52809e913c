"""Batch and group norm, pooling, upsampling, padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import (
    DEVICE,
    FLOATS,
    HALF,
    INTS,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
    mirror,
)
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("no_fallback")


def close(dtype: torch.dtype) -> dict[str, float]:
    rtol = {torch.bfloat16: 4e-2, torch.float16: 5e-3, torch.float64: 1e-9}
    value = rtol.get(dtype, 1e-4)
    return {"rtol": value, "atol": 2 * value}


class TestBatchNorm:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("training", [True, False])
    def test_gradients(self, dtype: torch.dtype, training: bool) -> None:
        def norm(x: torch.Tensor, *rest: torch.Tensor) -> Any:
            mean, var = (t.detach().clone() for t in rest[:2])
            y = F.batch_norm(x, mean, var, *rest[2:], training=training)
            return y, mean, var

        with Grid() as grid:
            for shape in ((6, 5), (4, 5, 7), (3, 5, 4, 6), (2, 5, 3, 4, 2)):
                for name, x in layouts(make(*shape, dtype=dtype)).items():
                    with grid.case(shape, name):
                        compare_gradients(
                            lambda x, m, v, w, b: norm(x, m, v, w, b),
                            x,
                            make(5, dtype=dtype).detach(),
                            make(5, dtype=dtype, low=0.5),
                            make(5, dtype=dtype, seed=1),
                            make(5, dtype=dtype, seed=2),
                            strides=False,
                            **close(dtype),
                        )

    @pytest.mark.parametrize("dtype", HALF)
    @pytest.mark.parametrize("training", [True, False])
    def test_mixed_types(self, dtype: torch.dtype, training: bool) -> None:
        def norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
            mean, var = torch.zeros_like(w), torch.ones_like(w)
            return F.batch_norm(x, mean, var, w, b, training), mean, var

        compare_gradients(
            norm, make(3, 4, 5, 5, dtype=dtype), make(4), make(4), **close(dtype)
        )

    def test_without_parameters_or_statistics(self) -> None:
        x = make(3, 4, 5, 6)
        compare_gradients(lambda x: F.batch_norm(x, None, None, training=True), x)
        compare_gradients(lambda x: F.instance_norm(x), x, strides=False)
        compare_gradients(
            lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
            x,
            make(4),
            make(4),
            strides=False,
            **close(torch.float32),
        )

    def test_strides(self) -> None:
        for name, x in layouts(make(3, 4, 5, 6)).items():
            ours = torch.native_batch_norm(
                mirror(x), None, None, None, None, True, 0.1, 1e-5
            )
            theirs = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
            assert ours[0].stride() == theirs[0].stride(), name
            assert_same(ours, theirs, **close(torch.float32))

    def test_precision(self) -> None:
        x = make(8, 3, 64, 64) * 0.01 + 300
        compare(
            lambda x: F.batch_norm(x, None, None, training=True),
            x,
            rtol=1e-2,
            atol=2e-2,
        )

    def test_errors(self) -> None:
        x = torch.ones(2, 3, 4, device=DEVICE)
        with pytest.raises(RuntimeError, match="should contain 3 elements"):
            F.batch_norm(x, torch.zeros(2, device=DEVICE), None, training=False)
        with pytest.raises(RuntimeError):
            F.batch_norm(x, torch.zeros(3), torch.ones(3))


@pytest.mark.parametrize("dtype", FLOATS)
def test_group_norm(dtype: torch.dtype) -> None:
    with Grid() as grid:
        for shape in ((2, 6), (2, 6, 5), (2, 6, 4, 3), (1, 6, 2, 3, 4)):
            for groups in (1, 2, 6):
                for name, x in layouts(make(*shape, dtype=dtype)).items():
                    if shape == (2, 6) and groups == 6:
                        continue  # one value a group: PyTorch refuses
                    with grid.case(shape, groups, name):
                        compare_gradients(
                            lambda x, w, b, g=groups: F.group_norm(x, g, w, b),
                            x,
                            make(6, dtype=dtype),
                            make(6, dtype=dtype),
                            strides=False,
                            **close(dtype),
                        )


# --- Pooling -----------------------------------------------------------------

POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_size": 3}),
    ((2, 3, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((2, 3, 8, 9), {"kernel_size": 2}),
    ((2, 3, 8, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((2, 3, 8, 9), {"kernel_size": (3, 2), "stride": (1, 3), "ceil_mode": True}),
    ((3, 8, 9), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((2, 3, 5, 6, 7), {"kernel_size": 2}),
    ((2, 3, 5, 6, 7), {"kernel_size": 3, "stride": (1, 2, 2), "padding": 1}),
]


def pool(kind: str, x: torch.Tensor, options: dict[str, Any]) -> Callable[..., Any]:
    space = 2 if x.dim() == 3 and options["kernel_size"] == 3 and x.shape[0] == 3 else 0
    space = space or max(x.dim() - 2, 1)
    return getattr(F, f"{kind}_pool{space}d")


@pytest.mark.parametrize("dtype", FLOATS)
class TestPooling:
    def test_max(self, dtype: torch.dtype) -> None:
        with Grid() as grid:
            for shape, options in POOLS:
                for dilation in (1, 2):
                    for name, x in layouts(make(*shape, dtype=dtype)).items():
                        function = pool("max", x, options)
                        with grid.case(shape, options, dilation, name):
                            compare_gradients(
                                lambda x, f=function, o=options, d=dilation: f(
                                    x, dilation=d, return_indices=True, **o
                                ),
                                x,
                                **close(dtype),
                            )

    def test_average(self, dtype: torch.dtype) -> None:
        with Grid() as grid:
            for shape, options in POOLS:
                if dtype in HALF and len(shape) == 5:
                    continue  # the CPU has none
                for counted in (True, False):
                    for name, x in layouts(make(*shape, dtype=dtype)).items():
                        function = pool("avg", x, options)
                        with grid.case(shape, options, counted, name):
                            compare_gradients(
                                lambda x, f=function, o=options, c=counted: f(
                                    x, count_include_pad=c, **o
                                ),
                                x,
                                **close(dtype),
                            )

    def test_adaptive(self, dtype: torch.dtype) -> None:
        with Grid() as grid:
            for shape, sizes in (
                ((2, 3, 9), (1, 4, 12)),
                ((2, 3, 8, 9), (1, 3, (5, 2), (None, 10))),
                ((3, 8, 9), ((5, 2),)),
                ((2, 3, 5, 6, 7), (1, 2, (3, 6, 9))),
            ):
                for size in sizes:
                    for name, x in layouts(make(*shape, dtype=dtype)).items():
                        space = 2 if shape == (3, 8, 9) else x.dim() - 2
                        for kind in ("avg", "max"):
                            f = getattr(F, f"adaptive_{kind}_pool{space}d")
                            with grid.case(kind, shape, size, name):
                                compare_gradients(
                                    lambda x, f=f, s=size: f(x, s), x, **close(dtype)
                                )


class TestPoolingEdges:
    def test_divisor(self) -> None:
        compare_gradients(
            lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), make(2, 3, 7, 8)
        )
        compare_gradients(
            lambda x: F.avg_pool3d(x, 2, divisor_override=-3), make(2, 3, 4, 5, 6)
        )

    def test_integers(self) -> None:
        for dtype in INTS:
            compare(
                lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
                make(2, 3, 7, 8, dtype=dtype),
            )

    def test_not_a_number(self) -> None:
        x = make(2, 3, 8, 8)
        x[0, 0, 3] = float("nan")
        x[1, :, :4] = -float("inf")
        compare(lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True), x)
        compare(lambda x: F.avg_pool2d(x, 3, 1, 1), x)
        compare(lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True), x)

    def test_errors(self) -> None:
        x = torch.ones(1, 2, 4, 4, device=DEVICE)
        for call in (
            lambda: F.max_pool2d(x, 9),
            lambda: F.max_pool2d(x, 3, padding=2),
            lambda: F.avg_pool2d(x, 0),
            lambda: F.max_pool3d(x[None], (1, 9, 1)),
            lambda: F.avg_pool2d(x, 2, divisor_override=0),
            lambda: F.adaptive_avg_pool2d(x[..., :0], 3),
        ):
            with pytest.raises(RuntimeError):
                call()

    def test_batch_of_none(self) -> None:
        compare(lambda x: F.max_pool2d(x, 2), make(0, 3, 4, 4))
        compare(lambda x: F.avg_pool2d(x, 2), make(0, 3, 4, 4))


# --- Upsampling and padding ----------------------------------------------------

MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "trilinear"),
}


@pytest.mark.parametrize("dtype", FLOATS)
class TestUpsampling:
    def test_sizes_and_scales(self, dtype: torch.dtype) -> None:
        with Grid() as grid:
            for shape, targets in (
                ((2, 3, 7), ({"size": 14}, {"size": 3}, {"scale_factor": 1.7})),
                (
                    (2, 3, 5, 6),
                    (
                        {"size": (10, 12)},
                        {"size": (3, 13)},
                        {"scale_factor": 2},
                        {"scale_factor": (0.6, 1.9)},
                        {"scale_factor": 1.3, "recompute_scale_factor": True},
                    ),
                ),
                ((1, 2, 3, 4, 5), ({"size": (6, 3, 7)}, {"scale_factor": 1.5})),
            ):
                for mode in MODES[len(shape) - 2]:
                    for target in targets:
                        for name, x in layouts(make(*shape, dtype=dtype)).items():
                            aligned = (False, True) if "near" not in mode else (None,)
                            for align in aligned:
                                with grid.case(shape, mode, target, name, align):
                                    compare_gradients(
                                        lambda x, m=mode, t=target, a=align: (
                                            F.interpolate(
                                                x, mode=m, align_corners=a, **t
                                            )
                                        ),
                                        x,
                                        **close(dtype),
                                    )

    def test_padding(self, dtype: torch.dtype) -> None:
        with Grid() as grid:
            for shape, pads in (
                ((2, 3, 7), ((2, 3), (0, 6), (-1, 2))),
                ((3, 7), ((1, 2),)),
                ((2, 3, 5, 6), ((1, 2, 3, 4), (0, 0, 2, 0), (-1, 2, 1, -2))),
                ((3, 5, 6), ((1, 2, 3, 4),)),
                ((1, 2, 4, 5, 6), ((1, 2, 2, 1, 3, 2),)),
            ):
                for pad in pads:
                    for mode in ("reflect", "replicate", "circular"):
                        if mode == "circular" and len(shape) != len(pad) // 2 + 2:
                            continue
                        for name, x in layouts(make(*shape, dtype=dtype)).items():
                            with grid.case(shape, pad, mode, name):
                                compare_gradients(
                                    lambda x, p=pad, m=mode: F.pad(x, p, m),
                                    x,
                                    **close(dtype),
                                )


class TestUpsamplingEdges:
    def test_bytes(self) -> None:
        compare(
            lambda x: F.interpolate(x, scale_factor=2.3),
            make(2, 3, 5, 6, dtype=torch.uint8, high=200),
        )

    def test_errors(self) -> None:
        x = torch.ones(1, 2, 4, 4, device=DEVICE)
        for call in (
            lambda: F.pad(x, (4, 0, 0, 0), "reflect"),
            lambda: F.interpolate(x, size=(0, 3)),
            lambda: F.interpolate(x.int(), scale_factor=2),
        ):
            with pytest.raises(RuntimeError):
                call()


class TestUnfold:
    def test_columns_and_images(self) -> None:
        for options in (
            {"kernel_size": 3},
            {"kernel_size": (2, 3), "padding": (1, 0), "stride": (2, 1)},
            {"kernel_size": 2, "dilation": 2, "padding": 1},
        ):
            x = make(2, 3, 7, 8)
            compare_gradients(lambda x, o=options: F.unfold(x, **o), x)
            columns = F.unfold(x, **options)
            compare_gradients(
                lambda c, o=options: F.fold(c, (7, 8), **o),
                columns,
                **close(torch.float32),
            )
        compare_gradients(lambda x: F.unfold(x, 3), make(3, 7, 8))

    def test_unpool(self) -> None:
        def there_and_back(x: torch.Tensor) -> torch.Tensor:
            y, where = F.max_pool2d(x, 2, return_indices=True)
            return F.max_unpool2d(y, where, 2)

        compare_gradients(there_and_back, make(2, 3, 6, 8))
        y, where = F.max_pool3d(make(2, 3, 4, 6, 8), 2, return_indices=True)
        compare(lambda y, i: F.max_unpool3d(y, i, 2), y, where)
        with pytest.raises(RuntimeError):
            F.max_unpool2d(y[0].to(DEVICE), where[0, :2].to(DEVICE), 2)
