"""What users of young backends ran into with strides and dtypes.

As test_user_cases.py: each case by its number, expected values as literals.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from support import (
    DEVICE,
    assert_same,
    compare,
    make,
    mirror,
    on,
    raises,
    same,
)
from torch import nn

INF, NAN = float("inf"), float("nan")


class TestUc01WritesIntoViews:
    @pytest.mark.parametrize("source", ["cpu", DEVICE])
    def test_uc01_slice(self, source):
        x = torch.arange(6.0, device=DEVICE)
        x[3:5].copy_(torch.tensor([50.0, 60.0], device=source))
        same(x, [0, 1, 2, 50, 60, 5])

    def test_uc01_fill_column_diagonal_integers_and_bool(self):
        x = torch.zeros(3, 2, device=DEVICE)
        x[1:, 1].fill_(7)
        same(x, [[0, 0], [0, 7], [0, 7]])
        x = torch.zeros(3, 3, device=DEVICE)
        x.diagonal().add_(1)
        same(x, torch.eye(3).tolist())
        x = torch.zeros(2, 3, dtype=torch.int64, device=DEVICE)
        x[:, 0] = 2
        same(x, [[2, 0, 0], [2, 0, 0]])
        x = torch.zeros(4, dtype=torch.bool, device=DEVICE)
        x[2] = True
        same(x, [False, False, True, False])

    def test_uc01_clone_of_two_rows(self):
        x = torch.arange(15.0, device=DEVICE).view(5, 3)
        same(x[1].clone(), [3, 4, 5])
        same(x[3].clone(), [9, 10, 11])


class TestUc03Gaps:
    def test_uc03_both_sides_gappy(self):
        host = torch.zeros(12)
        host[1::3].copy_(torch.arange(12.0, device=DEVICE)[1::3])
        assert host.tolist() == [0, 1, 0, 0, 4, 0, 0, 7, 0, 0, 10, 0]
        x = torch.zeros(12, device=DEVICE)
        x[1::3].copy_(torch.arange(12.0)[1::3])
        same(x, host.tolist())
        x = torch.zeros(12, device=DEVICE)
        x[1::3].copy_(torch.arange(12.0, device=DEVICE)[1::3])
        same(x, host.tolist())

    def test_uc03_element_by_element(self):
        ids = on([0, 3, 6, 9, 12], dtype=torch.int32)
        host = torch.zeros(5)
        for i in range(5):
            host[i] = ids[i]
        assert host.tolist() == [0, 3, 6, 9, 12]


class TestUc24Destinations:
    def test_uc24_transposed_and_strided_out(self):
        out = torch.empty(3, 2, device=DEVICE).t()
        torch.neg(on([[0.0, 1, 2], [3, 4, 5]]), out=out)
        same(out, [[-0.0, -1, -2], [-3, -4, -5]])
        assert out.stride() == (1, 2)
        parent = torch.zeros(4, 4, device=DEVICE)
        ones = torch.ones(2, 2, device=DEVICE)
        torch.add(ones, ones * 2, out=parent[1:3, ::2])
        same(parent, [[0] * 4, [3, 0, 3, 0], [3, 0, 3, 0], [0] * 4])

    def test_uc24_in_place_on_transposed(self):
        x = torch.arange(6.0).view(2, 3).to(DEVICE).t()
        one, four = (
            torch.ones(3, 2, device=DEVICE),
            torch.full((3, 2), 4.0, device=DEVICE),
        )
        same(x.addcdiv_(one, four), [[0.25, 3.25], [1.25, 4.25], [2.25, 5.25]])
        condition = on([[True, False, False], [False, True, True]]).t()
        values = torch.arange(6.0, device=DEVICE).view(3, 2)
        same(torch.where(condition, values, -1.0), [[0, -1], [-1, 3], [-1, 5]])

    @pytest.mark.parametrize("foreach", [True, False])
    def test_uc24_adam_moves_a_transposed_parameter(self, foreach):
        w = nn.Parameter(torch.arange(6.0).view(2, 3).to(DEVICE).t())
        w.grad = torch.ones(3, 2, device=DEVICE)
        torch.optim.Adam([w], lr=0.5, foreach=foreach).step()
        same(w.detach(), [[-0.5, 2.5], [0.5, 3.5], [1.5, 4.5]])

    def test_uc24_overlap_raises(self):
        x = torch.arange(6.0, device=DEVICE)
        raises(lambda: torch.add(x[:-1], 1, out=x[1:]))


class TestUc37Conversions:
    def test_uc37_values(self):
        assert on([5, 6, 7]).int().tolist() == [5, 6, 7]
        assert on([True, False]).float().tolist() == [1, 0]
        assert on([True, False]).half().tolist() == [1, 0]
        assert on([0, 0.3, -2, NAN]).bool().tolist() == [False, True, True, True]
        assert on([1.9, -1.9, 2.5]).int().tolist() == [1, -1, 2]
        byte = on([200], dtype=torch.uint8)
        assert byte.float().item() == 200 and byte.to(torch.int8).item() == -56
        assert on([70000.0]).half().item() == INF

    def test_uc37_promotion(self):
        i8, i32 = on([1], dtype=torch.int8), on([1], dtype=torch.int32)
        assert torch.cat([i8, i32]).dtype == torch.int32
        assert (
            torch.cat([torch.empty(0, device=DEVICE), on([1])]).dtype == torch.float32
        )
        assert (i32 + torch.tensor(1.5)).dtype == torch.float32
        assert (i32 + torch.tensor(1.5, device=DEVICE)).dtype == torch.float32
        assert (i32 + torch.tensor(1)).dtype == torch.int32
        assert (on([1.0]).half() * torch.tensor(2.0).double()).dtype == torch.float16
        total = i8 + 300
        assert total.dtype == torch.int8 and total.item() == 45


class TestUc38ExpandedOperands:
    def test_uc38_products(self):
        row = on([[1.0, 2.0]]).expand(40, 2)
        same((row @ torch.diag(on([1.0, 2.0]))).sum(0), [40, 160])
        windows = torch.arange(4.0, device=DEVICE).as_strided((2, 3, 2), (0, 1, 1))
        same(F.linear(windows, on([[1.0, 10]])), [[[10], [21], [32]]] * 2)

    def test_uc38_column_slices_and_guards(self):
        before = torch.full((64,), 5.0, device=DEVICE)
        x = make(5, 6)
        x[0, 2], x[1, 3] = INF, NAN
        d = x.to(DEVICE)
        after = torch.full((64,), 5.0, device=DEVICE)
        assert torch.equal(torch.isfinite(d[:, 1:4]).cpu(), torch.isfinite(x[:, 1:4]))
        assert torch.equal(torch.isinf(d[:, 1:4]).cpu(), torch.isinf(x[:, 1:4]))
        assert (before == 5).all().item() and (after == 5).all().item()
        scalar = torch.tensor(0.5, device=DEVICE).expand(3, 3)
        same(scalar.sin(), [[math.sin(0.5)] * 3] * 3)
        assert scalar.clone().is_contiguous()


class TestUc40Convolutions:
    def check(self, function, *args):
        """Like the call with dense operands, forward and backward."""
        results = []
        for dense in (False, True):
            leaves = [mirror(a) for a in args]
            leaves = [
                (v.contiguous() if dense else v).detach().requires_grad_()
                for v in leaves
            ]
            out = function(*leaves)
            out.backward(mirror(make(*out.shape)))
            results.append([out.detach(), *(leaf.grad for leaf in leaves)])
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours.cpu(), theirs.cpu(), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(
            results[0][0].cpu(), function(*args), rtol=1e-4, atol=1e-4
        )

    def test_uc40_slices(self):
        weight = make(4, 3, 2, 3, 3)[:, :, 1]
        x = make(2, 3, 6, 6)
        self.check(F.conv2d, x, weight)
        wide = make(2, 4, 6, 6).contiguous(memory_format=torch.channels_last)
        self.check(F.conv2d, wide[:, :1], make(2, 1, 3, 3))
        self.check(F.conv2d, wide[:, 1:], weight)

    def test_uc40_other_kinds(self):
        self.check(F.conv_transpose2d, make(2, 3, 4, 4), make(3, 2, 3, 3))
        self.check(F.conv1d, make(2, 7, 3).transpose(1, 2), make(4, 3, 3))
        self.check(
            lambda x, w: F.conv2d(x, w, groups=2, padding=1),
            make(1, 4, 5, 5),
            make(4, 2, 3, 3),
        )


class TestUc41Rotary:
    def test_uc41_halves(self, no_fallback):
        x = make(2, 3, 4, 8)
        compare(
            lambda t: torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2),
            x,
            rtol=0,
            atol=0,
        )
        compare(lambda t: torch.cat([-t[..., 4:], t[..., :4]], -1), x, rtol=0, atol=0)
        compare(lambda t: torch.stack(t.unbind(1)[::-1], 1), x, rtol=0, atol=0)

    def test_uc41_new_row_is_the_last(self, no_fallback):
        cache, row = make(1, 8, 67, 128), make(1, 8, 1, 128, seed=1)
        ours = torch.cat([cache.to(DEVICE), row.to(DEVICE)], 2)
        assert_same(ours, torch.cat([cache, row], 2), rtol=0, atol=0)
        assert torch.equal(ours[:, :, -1:].cpu(), row)
        out = torch.empty(1, 8, 68, 128, device=DEVICE)
        torch.cat([cache.to(DEVICE), row.to(DEVICE)], 2, out=out)
        assert torch.equal(out, ours)


def test_all_pairs_of_uc37_dtypes_into_a_transposed_target():
    kinds = (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64)
    kinds += (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for a, b in itertools.product(kinds, kinds):
        x = make(3, 2, dtype=a, low=0, high=100)
        target = torch.zeros(2, 3, dtype=b, device=DEVICE).t()
        target.copy_(x)
        assert torch.equal(target.cpu(), x.to(b)), (a, b)
