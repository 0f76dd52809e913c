"""Losses: against the CPU, every reduction, weights, gradients, errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, Grid, compare, compare_gradients, make, mirror, raises

pytestmark = pytest.mark.usefixtures("no_fallback")

REDUCTIONS = ("none", "mean", "sum")
LOOSE = {"rtol": 3e-5, "atol": 3e-5}


def targets(*shape: int, classes: int, ignored: bool = False) -> torch.Tensor:
    found = make(*shape, dtype=torch.int64, low=0, high=classes - 1)
    if ignored:
        found.view(-1)[::4] = -100
    return found


def test_nll_of_images():
    with Grid() as grid:
        for shape in ((2, 5, 3, 4), (1, 3, 1, 1), (3, 4, 2, 7)):
            for reduction in REDUCTIONS:
                for weight in (None, make(shape[1], low=0.5, high=2)):
                    x = make(*shape).log_softmax(1)
                    y = targets(shape[0], *shape[2:], classes=shape[1], ignored=True)
                    with grid.case(shape, reduction, weight is not None):
                        compare_gradients(
                            lambda v, y=y, r=reduction, w=weight: F.nll_loss(
                                v,
                                y.to(v.device),
                                None if w is None else w.to(v.device),
                                reduction=r,
                            ),
                            x,
                            **LOOSE,
                        )
        with grid.case("channels_last"):
            x = make(2, 5, 3, 4).to(memory_format=torch.channels_last)
            y = targets(2, 3, 4, classes=5)
            compare(lambda v, t: F.cross_entropy(v, t), x, y, **LOOSE)
        with grid.case("label smoothing"):
            compare_gradients(
                lambda v: F.cross_entropy(
                    v, targets(2, 3, 4, classes=5).to(v.device), label_smoothing=0.1
                ),
                make(2, 5, 3, 4),
                **LOOSE,
            )
        with grid.case("bfloat16"):
            compare(
                F.nll_loss,
                make(2, 5, 3, 4, dtype=torch.bfloat16),
                targets(2, 3, 4, classes=5),
                rtol=2e-2,
                atol=2e-2,
            )
    y = targets(2, 3, 4, classes=5).to(DEVICE)
    raises(lambda: F.nll_loss(make(2, 3, 3, 4).to(DEVICE), y + 2))
    with pytest.raises(RuntimeError, match="size mismatch"):
        torch.ops.aten.nll_loss2d_forward(make(2, 5, 3, 3).to(DEVICE), y, None, 1, -100)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_and_huber(reduction):
    p, y = make(4, 5, low=0.02, high=0.98), make(4, 5, low=0, high=1, seed=3)
    compare_gradients(
        lambda v: F.binary_cross_entropy(v, y.to(v.device), reduction=reduction),
        p,
        **LOOSE,
    )
    w = make(5, low=0.5, high=2)
    compare_gradients(
        lambda v: F.binary_cross_entropy(
            v, y.to(v.device), w.to(v.device), reduction=reduction
        ),
        p,
        **LOOSE,
    )
    compare(
        lambda v, t: F.binary_cross_entropy(v, t, reduction=reduction),
        torch.tensor([0.0, 1.0, 0.0, 1.0]),
        torch.tensor([0.0, 0.0, 1.0, 1.0]),
    )
    compare_gradients(
        lambda v: F.binary_cross_entropy_with_logits(
            v, y.to(v.device), reduction=reduction
        ),
        make(4, 5),
        **LOOSE,
    )
    for delta in (0.5, 1.0, 3.0):
        compare_gradients(
            lambda v, t, d=delta: F.huber_loss(v, t, reduction=reduction, delta=d),
            make(4, 5),
            make(4, 5, seed=1),
            **LOOSE,
        )
    for f in (F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.kl_div, F.soft_margin_loss):
        compare_gradients(
            lambda v, f=f: f(v, y.to(v.device), reduction=reduction),
            make(4, 5),
            **LOOSE,
        )
    with pytest.raises(RuntimeError, match="non-positive"):
        F.huber_loss(
            torch.ones(2, device=DEVICE), torch.ones(2, device=DEVICE), delta=-1
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(reduction):
    with Grid() as grid:
        for p in (1, 2):
            for margin in (1.0, 0.3):
                for weight in (None, make(5, low=0.5, high=2)):
                    with grid.case("multi_margin", p, margin, weight is not None):
                        compare_gradients(
                            lambda v, p=p, m=margin, w=weight: F.multi_margin_loss(
                                v,
                                targets(4, classes=5).to(v.device),
                                p=p,
                                margin=m,
                                weight=None if w is None else w.to(v.device),
                                reduction=reduction,
                            ),
                            make(4, 5),
                            **LOOSE,
                        )
        with grid.case("multi_margin", "vector"):
            compare_gradients(
                lambda v: F.multi_margin_loss(
                    v, torch.tensor(2).to(v.device), reduction=reduction
                ),
                make(5),
                **LOOSE,
            )
        labels = torch.tensor(
            [[1, 3, -1, 0], [-1, 2, 1, 0], [2, 0, 1, 3], [0, -1, 2, -1]]
        )
        with grid.case("multilabel"):
            compare_gradients(
                lambda v: F.multilabel_margin_loss(
                    v, labels.to(v.device), reduction=reduction
                ),
                make(4, 4),
                **LOOSE,
            )
        with grid.case("multilabel", "vector"):
            compare_gradients(
                lambda v: F.multilabel_margin_loss(
                    v, labels[0].to(v.device), reduction=reduction
                ),
                make(4),
                **LOOSE,
            )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc(reduction):
    steps, batch, classes = 12, 3, 6
    logits = make(steps, batch, classes)
    joined = torch.tensor([1, 2, 2, 3, 5, 5, 4])
    padded = torch.tensor([[1, 2, 2, 0], [3, 0, 0, 0], [5, 5, 4, 0]])
    lengths, letters = (12, 9, 10), (3, 1, 3)
    with Grid() as grid:
        for name, y in (
            ("joined", joined),
            ("padded", padded),
            ("int32", padded.int()),
        ):
            for dtype in (torch.float32, torch.float64):
                with grid.case(name, dtype):
                    compare_gradients(
                        lambda v, y=y: F.ctc_loss(
                            v.log_softmax(2),
                            y.to(v.device),
                            lengths,
                            letters,
                            reduction=reduction,
                        ),
                        logits.to(dtype),
                        strides=False,
                        **LOOSE,
                    )
        with grid.case("impossible"):
            compare_gradients(
                lambda v: F.ctc_loss(
                    v.log_softmax(2),
                    padded.to(v.device),
                    (12, 1, 2),
                    letters,
                    reduction=reduction,
                    zero_infinity=True,
                ),
                logits,
                strides=False,
                **LOOSE,
            )
    x = mirror(logits)
    with pytest.raises(RuntimeError, match="at most"):
        F.ctc_loss(x, padded.to(DEVICE), (13, 9, 10), letters)
    raises(lambda: F.ctc_loss(x, padded.to(DEVICE) + 3, lengths, letters))
