"""Matrix products: shapes, layouts, dtypes, epilogues, gradients."""

from __future__ import annotations

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

pytestmark = pytest.mark.usefixtures("no_fallback")


def close(dtype: torch.dtype) -> dict[str, float]:
    return {
        torch.float32: {"rtol": 1e-5, "atol": 5e-5},
        torch.float64: {"rtol": 1e-10, "atol": 1e-10},
        torch.float16: {"rtol": 5e-3, "atol": 3e-2},
        torch.bfloat16: {"rtol": 3e-2, "atol": 2e-1},
    }[dtype]


F32 = close(torch.float32)


class TestMm:
    def test_dtypes_and_layouts(self):
        with Grid() as grid:
            for dtype in FLOATS:
                a, b = make(5, 7, dtype=dtype), make(7, 3, dtype=dtype)
                for (p, x), (q, y) in itertools.product(
                    layouts(a).items(), layouts(b).items()
                ):
                    with grid.case(dtype, p, q):
                        compare(torch.mm, x, y, **close(dtype))

    def test_sizes(self):
        sizes = (1, 2, 7, 16, 31, 33, 64, 100, 129)
        with Grid() as grid:
            for m, n, k in itertools.product((1, 5, 33, 128), sizes, (1, 3, 32, 65)):
                with grid.case(m, n, k):
                    compare(torch.mm, make(m, k), make(k, n), **F32)

    @pytest.mark.parametrize(
        "size", [(257, 129, 511), (1000, 10, 1000), (3, 2000, 700)]
    )
    def test_large(self, size):
        m, n, k = size
        a, b = make(m, k, dtype=torch.float64), make(k, n, dtype=torch.float64)
        exact = a @ b
        for dtype in (torch.float32, torch.float64):
            ours = (a.to(dtype).to(DEVICE) @ b.to(dtype).to(DEVICE)).cpu()
            bound = 1e-5 if dtype == torch.float32 else 1e-13
            assert (ours.double() - exact).abs().max() <= bound * k**0.5 * 9

    def test_products_of_halves_are_summed_in_float(self):
        a = torch.full((2, 4096), 0.01, dtype=torch.float16, device=DEVICE)
        assert (a @ a.t())[0, 1].item() == pytest.approx(0.4096, rel=4e-3)

    def test_nan_and_infinity(self):
        a = make(3, 4)
        a[1, 2] = float("nan")
        a[2, 0] = float("inf")
        compare(torch.mm, a, make(4, 5), **F32)

    def test_integers(self):
        torch.tvarant.reset_fallback_stats()
        a, b = make(3, 4, dtype=torch.int64), make(4, 2, dtype=torch.int64)
        compare(torch.mm, a, b)
        torch.tvarant.reset_fallback_stats()  # may run on the CPU

    def test_out(self):
        a, b = make(3, 4), make(4, 5)
        out = torch.empty(5, 3, device=DEVICE).t()
        assert torch.mm(mirror(a), mirror(b), out=out) is out
        assert out.stride() == (1, 3)
        torch.testing.assert_close(out.cpu(), a @ b)
        inside = torch.zeros(5, 12, device=DEVICE)
        torch.mm(mirror(a), mirror(b), out=inside[1:4, 1:11:2])
        assert_same(inside[1:4, 1:11:2].contiguous(), a @ b, **F32)
        assert inside.count_nonzero().item() == 15

    def test_expanded_operands(self):
        row = torch.tensor([[1.0, 2.0]]).expand(40, 2)
        compare(torch.mm, row, torch.diag(torch.tensor([1.0, 2.0])))
        compare(torch.mm, torch.tensor([[2.0]]).expand(3, 4), make(4, 5), **F32)
        compare(torch.bmm, make(1, 3, 4).expand(5, 3, 4), make(5, 4, 2), **F32)

    def test_gradient(self):
        for a, b in ((make(5, 7), make(7, 3)), (make(7, 5).t(), make(3, 7).t())):
            compare_gradients(torch.mm, a, b, **F32)


class TestAddmm:
    @pytest.mark.parametrize("shape", [(5, 3), (3,), (1, 3), (5, 1), (1,), ()])
    def test_bias_shapes(self, shape):
        bias, a, b = make(*shape), make(5, 7), make(7, 3)
        compare(torch.addmm, bias, a, b, **F32)
        compare(
            lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=-2), bias, a, b, **F32
        )
        compare_gradients(torch.addmm, bias, a, b, **F32)

    def test_dtypes(self):
        for dtype in FLOATS:
            c, a, b = (make(*s, dtype=dtype) for s in ((3,), (5, 7), (7, 3)))
            compare(torch.addmm, c, a, b, **close(dtype))

    def test_beta_zero_ignores_the_bias(self):
        bias = torch.full((5, 3), float("nan"))
        compare(
            lambda c, a, b: torch.addmm(c, a, b, beta=0),
            bias,
            make(5, 7),
            make(7, 3),
            **F32,
        )

    def test_in_place(self):
        compare(
            lambda c, a, b: c.addmm_(a, b), make(5, 3), make(5, 7), make(7, 3), **F32
        )
        compare(
            lambda c, a, b: c.t().addmm_(a, b),
            make(3, 5),
            make(5, 7),
            make(7, 3),
            **F32,
        )

    def test_relatives(self):
        v, w = make(4), make(4, seed=1)
        compare(torch.mv, make(5, 4), v, **F32)
        compare(torch.dot, v, w, **F32)
        compare(
            lambda m, a, x: torch.addmv(m, a, x, beta=2), make(5), make(5, 4), v, **F32
        )
        compare(torch.outer, v, make(3), **F32)

    def test_errors(self):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            torch.mm(make(2, 3).to(DEVICE), make(2, 3).to(DEVICE))
        with pytest.raises(RuntimeError):
            torch.mm(make(2, 3).to(DEVICE), make(3, 2).double().to(DEVICE))
        with pytest.raises(RuntimeError):
            torch.addmm(
                make(5).to(DEVICE), make(2, 3).to(DEVICE), make(3, 2).to(DEVICE)
            )


class TestBatched:
    def test_dtypes_and_layouts(self):
        with Grid() as grid:
            for dtype in FLOATS:
                a, b = make(3, 4, 5, dtype=dtype), make(3, 5, 2, dtype=dtype)
                for (p, x), (q, y) in itertools.product(
                    layouts(a).items(), layouts(b).items()
                ):
                    with grid.case(dtype, p, q):
                        compare(torch.bmm, x, y, **close(dtype))

    def test_baddbmm(self):
        a, b = make(3, 4, 5), make(3, 5, 2)
        for shape in ((3, 4, 2), (1, 4, 2), (4, 2), (2,), (3, 1, 1), ()):
            compare(
                lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2),
                make(*shape),
                a,
                b,
                **F32,
            )
        compare_gradients(torch.baddbmm, make(3, 4, 2), a, b, **F32)

    @pytest.mark.parametrize(
        "a,b",
        [
            ((4,), (4,)),
            ((4,), (4, 3)),
            ((3, 4), (4,)),
            ((2, 3, 4), (4,)),
            ((4,), (2, 4, 3)),
            ((2, 3, 4), (4, 5)),
            ((3, 4), (2, 4, 5)),
            ((2, 3, 4), (2, 4, 5)),
            ((2, 1, 3, 4), (1, 2, 4, 5)),
            ((5, 1, 1, 3, 4), (2, 3, 4, 2)),
            ((0, 3, 4), (0, 4, 5)),
            ((2, 3, 0), (2, 0, 4)),
        ],
    )
    def test_matmul(self, a, b):
        compare(torch.matmul, make(*a), make(*b), **F32)
        compare_gradients(torch.matmul, make(*a), make(*b), **F32)

    def test_attention_layouts(self):
        x = make(2, 6, 3, 8)  # batch, length, heads, size
        q, k = x.transpose(1, 2), make(2, 6, 3, 8, seed=1).transpose(1, 2)
        compare(lambda a, b: a @ b.transpose(-1, -2), q, k, **F32)
        compare_gradients(lambda a, b: torch.softmax(a @ b.mT, -1) @ b, q, k, **F32)

    def test_einsum_and_tensordot(self):
        a, b = make(2, 3, 4), make(2, 4, 5)
        compare(lambda x, y: torch.einsum("bij,bjk->bik", x, y), a, b, **F32)
        compare(lambda x, y: torch.einsum("bij,bjk->ik", x, y), a, b, **F32)
        compare(lambda x, y: torch.tensordot(x, y, dims=([2, 0], [1, 0])), a, b, **F32)


class TestLinear:
    @pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4), (2, 1, 3, 4)])
    @pytest.mark.parametrize("bias", [True, False])
    def test_shapes(self, shape, bias):
        args = (make(*shape), make(5, 4), *((make(5),) if bias else ()))
        compare(F.linear, *args, **F32)
        compare_gradients(F.linear, *args, **F32)

    def test_strided_input(self):
        for layout, x in layouts(make(2, 3, 4)).items():
            for w in layouts(make(5, 4)).values():
                compare(F.linear, x, w, make(5), **F32), layout

    @pytest.mark.parametrize("act", ["none", "relu", "silu", "gelu"])
    def test_linear_act(self, act):
        functions = {
            "none": lambda x: x,
            "relu": F.relu,
            "silu": F.silu,
            "gelu": F.gelu,
        }
        with Grid() as grid:
            for dtype, trans, bias in itertools.product(
                (torch.float32, torch.float64, torch.bfloat16),
                (True, False),
                (True, False),
            ):
                x = make(2, 3, 4, dtype=dtype)
                w = make(5, 4, dtype=dtype)
                b = make(5, dtype=dtype) if bias else None
                wide = [None if t is None else t.double() for t in (x, w, b)]
                expected = functions[act](F.linear(*wide))
                args = [mirror(x), mirror(w if trans else w.t().contiguous())]
                args.append(None if b is None else mirror(b))
                with grid.case(dtype, trans, bias):
                    ours = torch.ops.tvarant.linear_act(*args, act, trans)
                    assert ours.dtype == dtype and ours.device == DEVICE
                    torch.testing.assert_close(
                        ours.cpu().double(), expected, **close(dtype)
                    )
        grads = []
        for device in ("cpu", DEVICE):
            leaves = [
                make(*s).to(device).requires_grad_() for s in ((3, 4), (5, 4), (5,))
            ]
            if device == "cpu":
                functions[act](F.linear(*leaves)).pow(2).sum().backward()
            else:
                torch.ops.tvarant.linear_act(*leaves, act, True).pow(2).sum().backward()
            grads.append([leaf.grad for leaf in leaves])
        assert_same(grads[1], grads[0], rtol=1e-4, atol=1e-4)

    def test_linear_act_is_one_launch(self):
        x, w, b = (make(*s).to(DEVICE) for s in ((3, 4), (5, 4), (5,)))
        torch.tvarant.synchronize()
        before = torch.tvarant.counters()["launches"]
        torch.ops.tvarant.linear_act(x, w, b, "relu", True)
        torch.tvarant.synchronize()
        assert torch.tvarant.counters()["launches"] == before + 1

    def test_meta_shapes(self):
        x, w = torch.empty(2, 3, 4, device="meta"), torch.empty(5, 4, device="meta")
        result = torch.ops.tvarant.linear_act(x, w, None, "relu", True)
        assert result.shape == (2, 3, 5) and result.device.type == "meta"
