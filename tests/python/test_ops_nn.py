"""Softmax, losses, norms, embedding, dropout, attention; with their gradients."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from support import (
    DEVICE,
    FLOATS,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
    mirror,
)
from torch import nn

pytestmark = pytest.mark.usefixtures("no_fallback")

INF = float("inf")
NAN = float("nan")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def loose(dtype: torch.dtype) -> dict[str, float]:
    return {
        torch.float32: CLOSE,
        torch.float64: {"rtol": 1e-10, "atol": 1e-10},
        torch.float16: {"rtol": 3e-3, "atol": 3e-3},
        torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
    }[dtype]


class TestSoftmax:
    @pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
    def test_dims_dtypes_layouts(self, function):
        with Grid() as grid:
            for dtype in FLOATS:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for dim in (0, 1, 2, -1):
                        with grid.case(dtype, layout, dim):
                            compare(lambda t, d=dim: function(t, d), x, **loose(dtype))
                        with grid.case(dtype, layout, dim, "gradient"):
                            compare_gradients(
                                lambda t, d=dim: function(t, d), x, **loose(dtype)
                            )

    @pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
    def test_sizes(self, function):
        with Grid() as grid:
            for shape in (
                (1,),
                (31,),
                (33,),
                (1021,),
                (70_001,),
                (4, 5000),
                (5000, 4),
                (0,),
                (2, 0),
                (),
            ):
                for dim in range(max(len(shape), 1)):
                    with grid.case(shape, dim):
                        compare(lambda t, d=dim: function(t, d), make(*shape), **CLOSE)

    def test_extremes(self):
        rows = torch.tensor(
            [
                [1e4, -1e4, 0],
                [-INF, -INF, -INF],
                [INF, 0, 0],
                [-INF, 1, 2],
                [NAN, 0, 1],
                [88, 89, 90],
            ]
        )
        compare(lambda t: torch.softmax(t, 1), rows)
        compare(lambda t: torch.log_softmax(t, 1), rows)

    def test_dtype_argument(self):
        x = make(3, 4, dtype=torch.float16)
        compare(lambda t: torch.softmax(t, 1, dtype=torch.float32), x, **CLOSE)
        compare(lambda t: torch.softmax(t, 0, dtype=torch.float64), torch.arange(3))
        compare_gradients(lambda t: torch.log_softmax(t, 1, dtype=torch.float32), x)
        with pytest.raises(IndexError):
            torch.softmax(x.to(DEVICE), 2)


REDUCTIONS = ("none", "mean", "sum")


class TestLosses:
    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_nll_and_cross_entropy(self, reduction):
        target = torch.tensor([1, 0, 3, -100, 2, 3])
        with Grid() as grid:
            for dtype, weighted in itertools.product(FLOATS, (False, True)):
                x = make(6, 4, dtype=dtype)
                weight = (
                    torch.tensor([0.5, 1, 2, 0.25], dtype=dtype) if weighted else None
                )
                kwargs = {"reduction": reduction}
                with grid.case(dtype, weighted, "nll"):
                    compare_gradients(
                        lambda t, y, w=weight, k=kwargs: F.nll_loss(
                            t, y, w if w is None else w.to(t.device), **k
                        ),
                        x,
                        target,
                        **loose(dtype),
                    )
                with grid.case(dtype, weighted, "cross entropy"):
                    compare_gradients(
                        lambda t, y, w=weight, k=kwargs: F.cross_entropy(
                            t, y, w if w is None else w.to(t.device), **k
                        ),
                        x,
                        target,
                        **loose(dtype),
                    )
            with grid.case("ignore_index"):
                compare_gradients(
                    lambda t, y: F.cross_entropy(
                        t, y, ignore_index=1, reduction=reduction
                    ),
                    make(6, 4),
                    torch.tensor([1, 0, 3, 1, 2, 3]),
                    **CLOSE,
                )
            with grid.case("one sample"):
                compare(
                    lambda t, y: F.nll_loss(t, y, reduction=reduction),
                    make(4),
                    torch.tensor(2),
                )
            with grid.case("smoothing"):
                compare_gradients(
                    lambda t, y: F.cross_entropy(
                        t, y, label_smoothing=0.1, reduction=reduction
                    ),
                    make(6, 4),
                    target.clamp(0),
                    **CLOSE,
                )
            with grid.case("probabilities"):
                compare_gradients(
                    lambda t, p: (
                        F.cross_entropy(t, p.detach(), reduction=reduction)
                        + 0 * p.sum()
                    ),
                    make(6, 4),
                    make(6, 4).softmax(1),
                    **CLOSE,
                )

    def test_all_ignored_and_empty(self):
        x, target = make(3, 4), torch.full((3,), -100)
        compare(F.cross_entropy, x, target)
        compare(lambda t, y: F.cross_entropy(t, y, reduction="sum"), x, target)
        compare(F.cross_entropy, make(0, 4), torch.zeros(0, dtype=torch.int64))

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    @pytest.mark.parametrize(
        "name",
        ["mse_loss", "l1_loss", "smooth_l1_loss", "soft_margin_loss"],
    )
    def test_regression(self, name, reduction):
        function = getattr(F, name)
        x, y = make(4, 5), make(4, 5, seed=1)
        if name == "soft_margin_loss":
            y = y.sign()
        compare_gradients(
            lambda a, b: function(a, b.detach(), reduction=reduction) + 0 * b.sum(),
            x,
            y,
            **CLOSE,
        )

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_binary(self, reduction):
        x, y = make(4, 5), make(4, 5, low=0, high=1, seed=1)

        def with_logits(a, b):
            return (
                F.binary_cross_entropy_with_logits(a, b.detach(), reduction=reduction)
                + 0 * b.sum()
            )

        compare_gradients(with_logits, x, y, **CLOSE)

    @pytest.mark.parametrize("reduction", ["none", "mean", "sum", "batchmean"])
    def test_kl_div(self, reduction):
        x, y = make(4, 5).log_softmax(1), make(4, 5, seed=1).softmax(1)
        compare_gradients(
            lambda a, b: F.kl_div(a, b, reduction=reduction), x, y, **CLOSE
        )


class TestLayerNorm:
    @pytest.mark.parametrize("affine", [False, True])
    def test_dtypes_and_layouts(self, affine):
        with Grid() as grid:
            for dtype in FLOATS:
                weights = (
                    [make(5, dtype=dtype), make(5, dtype=dtype, seed=2)]
                    if affine
                    else []
                )
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    with grid.case(dtype, layout):
                        compare_gradients(
                            lambda t, *w: F.layer_norm(t, (5,), *w),
                            x,
                            *weights,
                            **loose(dtype),
                        )

    @pytest.mark.parametrize(
        "shape,normalized",
        [
            ((5,), (5,)),
            ((2, 3, 4), (3, 4)),
            ((2, 3, 4), (2, 3, 4)),
            ((7, 2), (2,)),
            ((3, 1021), (1021,)),
            ((200, 64), (64,)),
        ],
    )
    def test_shapes(self, shape, normalized):
        x, w, b = make(*shape), make(*normalized), make(*normalized, seed=1)
        compare_gradients(
            lambda t, w, b: F.layer_norm(t, normalized, w, b),
            x,
            w,
            b,
            rtol=1e-4,
            atol=1e-4,
        )

    def test_offset_values(self):
        """A large mean must not eat the variance."""
        x = make(4, 256) + 1000
        compare(lambda t: F.layer_norm(t, (256,)), x, rtol=1e-3, atol=1e-3)

    def test_constant_rows_and_eps(self):
        compare(lambda t: F.layer_norm(t, (8,)), torch.full((2, 8), 3.0))
        compare(lambda t: F.layer_norm(t, (8,), eps=0.5), make(2, 8), **CLOSE)

    def test_module(self):
        module = nn.LayerNorm(6)
        nn.init.normal_(module.weight)
        x = make(2, 3, 6)
        assert_same(copy.deepcopy(module).to(DEVICE)(x.to(DEVICE)), module(x), **CLOSE)

    def test_rms_norm(self):
        compare_gradients(
            lambda t, w: F.rms_norm(t, (5,), w), make(3, 4, 5), make(5), **CLOSE
        )


class TestEmbedding:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
    def test_lookup(self, dtype, index_dtype):
        table = make(10, 4, dtype=dtype)
        for index in (torch.tensor([[1, 9], [0, 1]]), torch.tensor(3), torch.zeros(0)):
            compare(F.embedding, index.to(index_dtype), table)
        compare(
            F.embedding,
            torch.tensor([2, 1], dtype=index_dtype),
            table.t().contiguous().t(),
        )

    @pytest.mark.parametrize(
        "options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}]
    )
    def test_gradient(self, options):
        index = torch.tensor([[1, 2, 1], [0, 1, 9]])
        compare_gradients(
            lambda i, w: F.embedding(i, w, **options), index, make(10, 4), **CLOSE
        )

    def test_gradient_of_many_repeats_is_exact(self):
        index = torch.arange(100_000) % 10
        compare_gradients(
            lambda i, w: F.embedding(i, w) * 0 + w.sum() * 0 + F.embedding(i, w),
            index[:50],
            make(10, 4),
            **CLOSE,
        )
        w = torch.zeros(10, 2, device=DEVICE, requires_grad=True)
        F.embedding(index.to(DEVICE), w).sum().backward()
        assert (w.grad == 10_000).all().item()

    def test_module_with_padding(self):
        module = nn.Embedding(5, 3, padding_idx=0)
        index = torch.tensor([0, 4, 0])
        assert_same(copy.deepcopy(module).to(DEVICE)(index.to(DEVICE)), module(index))


class TestDropout:
    def test_statistics(self):
        x = torch.ones(200_000, device=DEVICE)
        for p in (0.1, 0.5, 0.9):
            y = F.dropout(x, p)
            kept = (y != 0).float().mean().item()
            assert kept == pytest.approx(1 - p, abs=0.01)
            assert y.cpu().unique().tolist() == pytest.approx([0.0, 1 / (1 - p)])
            assert y.mean().item() == pytest.approx(1, abs=0.03)

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_gradient_has_the_same_mask(self, dtype):
        x = torch.ones(1000, device=DEVICE, dtype=dtype, requires_grad=True)
        y = F.dropout(x, 0.4)
        y.sum().backward()
        assert torch.equal(x.grad.cpu(), y.detach().cpu())

    def test_edges(self):
        x = make(100).to(DEVICE)
        assert torch.equal(F.dropout(x, 0.0), x)
        assert F.dropout(x, 1.0).count_nonzero().item() == 0
        assert torch.equal(F.dropout(x, 0.5, training=False), x)
        with pytest.raises(ValueError):
            F.dropout(x, 1.5)
        y = x.clone()
        F.dropout(y, 0.5, inplace=True)
        assert 0 < (y == 0).sum().item() < 100
        assert F.dropout(torch.ones(0, device=DEVICE), 0.5).numel() == 0

    def test_masks_differ_and_repeat_by_seed(self):
        x = torch.ones(1000, device=DEVICE)
        torch.manual_seed(1)
        first, second = F.dropout(x), F.dropout(x)
        assert not torch.equal(first, second)
        torch.manual_seed(1)
        assert torch.equal(F.dropout(x), first)

    def test_strided_input_keeps_its_strides(self):
        y = F.dropout(make(30, 20).to(DEVICE).t(), 0.5)
        assert y.shape == (20, 30)
        x = make(30, 20).t()
        kept = y.cpu() != 0
        torch.testing.assert_close(y.cpu()[kept], (x * 2)[kept])

    def test_other_kinds(self):
        x = torch.ones(8, 6, 5, device=DEVICE)
        y = F.dropout1d(x, 0.5)
        assert ((y == 0).all(-1) | (y == 2).all(-1)).all().item()
        y = F.alpha_dropout(torch.zeros(10_000, device=DEVICE), 0.2, True)
        assert len(y.cpu().unique()) == 2


class TestAttention:
    @pytest.mark.parametrize("shape", [(2, 3, 5, 8), (1, 1, 1, 4), (2, 5, 8), (5, 8)])
    def test_plain_and_causal(self, shape):
        q, k, v = (make(*shape, seed=s) for s in range(3))
        with Grid() as grid:
            for causal in (False, True):
                with grid.case(causal):
                    compare_gradients(
                        lambda a, b, c, f=causal: F.scaled_dot_product_attention(
                            a, b, c, is_causal=f
                        ).contiguous(),
                        q,
                        k,
                        v,
                        strides=False,
                        rtol=1e-4,
                        atol=1e-5,
                    )

    def test_masks(self):
        q, k, v = (make(2, 3, 5, 8, seed=s) for s in range(3))
        boolean = make(5, 5, dtype=torch.bool) | torch.eye(5, dtype=torch.bool)
        for mask in (boolean, boolean.expand(2, 3, 5, 5), make(5, 5), make(2, 1, 5, 5)):
            compare(
                lambda a, b, c, m: F.scaled_dot_product_attention(
                    a, b, c, m
                ).contiguous(),
                q,
                k,
                v,
                mask,
                rtol=1e-4,
                atol=1e-5,
            )

    def test_grouped_queries_and_scale(self):
        q, k, v = make(2, 4, 5, 8), make(2, 2, 5, 8, seed=1), make(2, 2, 5, 8, seed=2)
        compare(
            lambda a, b, c: F.scaled_dot_product_attention(
                a, b, c, scale=0.3, enable_gqa=True
            ).contiguous(),
            q,
            k,
            v,
            rtol=1e-4,
            atol=1e-5,
        )

    def test_forced_math_path(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q = make(2, 3, 5, 8)
        with sdpa_kernel(SDPBackend.MATH):
            compare(
                lambda a: F.scaled_dot_product_attention(a, a, a).contiguous(),
                q,
                rtol=1e-4,
                atol=1e-5,
            )

    def test_multi_head_module(self):
        module = nn.MultiheadAttention(8, 2, batch_first=True)
        twin = copy.deepcopy(module).to(DEVICE)
        x = make(2, 5, 8)
        expected = module(x, x, x)
        assert_same(twin(*[x.to(DEVICE)] * 3), expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("training", [True, False])
    def test_transformer_layer(self, training):
        module = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        module.train(training)
        twin = copy.deepcopy(module).to(DEVICE)
        x = make(2, 5, 8)
        expected, ours = module(x), twin(x.to(DEVICE))
        assert_same(ours, expected, rtol=1e-4, atol=1e-4)
        if training:
            expected.pow(2).sum().backward()
            ours.pow(2).sum().backward()
            assert_same(
                [p.grad for p in twin.parameters()],
                [p.grad for p in module.parameters()],
                rtol=1e-3,
                atol=1e-3,
            )


def test_second_derivatives():
    for function in (
        lambda t: torch.softmax(t, 1).pow(2).sum(),
        lambda t: torch.tanh(t).sum(),
        lambda t: t.pow(3).sum(),
        lambda t: torch.sigmoid(t).mul(t).sum(),
        lambda t: (t @ t.t()).relu().sum(),
    ):
        results = []
        for device in ("cpu", DEVICE):
            x = make(3, 4).to(device).requires_grad_()
            (first,) = torch.autograd.grad(function(x), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
            results.append((first, second))
        assert_same(results[1], results[0], rtol=1e-4, atol=1e-4)


def test_repeated_backward_and_accumulation():
    x = mirror(make(3, 4)).requires_grad_()
    loss = (x.exp() * x).sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * first.cpu())
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
