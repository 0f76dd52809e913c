"""What users of young backends ran into, with the answers known beforehand.

Each case is named by its number; expected values are literals, not the CPU's
answer. Cases about processes are in test_user_runs.py,
those about strides and dtypes in test_user_layouts.py.
"""

from __future__ import annotations

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from support import (
    DEVICE,
    SIGNED,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    make,
    on,
    raises,
    same,
)
from torch import nn

INF, NAN = float("inf"), float("nan")


def test_uc04_difference_of_neighbours():
    torch.tvarant.reset_fallback_stats()
    same(torch.diff(on([3, 7, 4, 9])), [4, -3, 5])
    assert torch.tvarant.fallback_stats() == {}


class TestUc05Fallbacks:
    def test_uc05_advanced_indexing(self):
        x = torch.arange(20, device=DEVICE).view(4, 5)
        same(x[:, on([4, 0])], [[4, 0], [9, 5], [14, 10], [19, 15]])
        same(x[on([1, 3]), on([2, 2])], [7, 17])
        y = torch.arange(24, device=DEVICE).view(2, 3, 4)
        assert_same(
            y[on([0, 1]), :, on([1, 2])],
            torch.arange(24).view(2, 3, 4)[[0, 1], :, [1, 2]],
        )
        same(x[x > 16], [17, 18, 19])
        x[on([0, 1]), on([0, 1])] = 100
        assert x[0, 0].item() == x[1, 1].item() == 100
        x[x == 100] = 0
        assert x.max().item() == 19

    def test_uc05_foreach_changes_its_arguments(self):
        first, second = (
            torch.ones(2, device=DEVICE),
            torch.full((3,), 2.0, device=DEVICE),
        )
        torch._foreach_mul_([first, second], 3)
        same(first, [3, 3])
        same(second, [6, 6, 6])

    def test_uc05_in_place_and_out_return_the_object(self):
        x = torch.rand(3, device=DEVICE) + 1
        assert x.digamma_() is x
        out = torch.empty(0, device=DEVICE)
        assert torch.special.bessel_j1(x, out=out) is out
        assert out.shape == (3,) and out.device == DEVICE

    def test_uc05_one_warning_an_operator(self, script):
        done = script(
            """
import warnings, torch
x = torch.eye(3, device="tvarant")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(4):
        torch.linalg.eigh(x)
        torch.linalg.qr(x)
print(len(caught), torch.tvarant.fallback_stats())
"""
        )
        assert done.stdout.startswith("2 "), done.stdout + done.stderr
        assert done.stdout.count(": 4") == 2


class TestUc15FullyMaskedRows:
    mask = torch.tensor([[False, False, False], [True, True, True]])

    def attend(self, mask, **options):
        q, k, v = (make(1, 1, n, 4, seed=n) for n in (2, 3, 3))
        d = [t.to(DEVICE) for t in (q, k, v)]
        masks = (None, None) if mask is None else (mask.to(DEVICE), mask)
        ours = F.scaled_dot_product_attention(*d, masks[0], **options)
        theirs = F.scaled_dot_product_attention(q, k, v, masks[1], **options)
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
        return ours.cpu()[0, 0], q, k, v

    def test_uc15_boolean_and_infinite(self):
        floats = torch.zeros(2, 3).masked_fill(~self.mask, -INF)
        for mask in (self.mask, floats, floats.expand(1, 1, 2, 3)):
            result, q, k, v = self.attend(mask)
            assert result[0].tolist() == [0, 0, 0, 0]
            weights = torch.softmax(q[0, 0, 1] @ k[0, 0].T / 2, -1)
            torch.testing.assert_close(
                result[1], weights @ v[0, 0], rtol=1e-4, atol=1e-5
            )

    def test_uc15_finite_minimum(self):
        floats = torch.zeros(2, 3).masked_fill(~self.mask, torch.finfo().min)
        result, _, _, v = self.attend(floats)
        torch.testing.assert_close(result[0], v[0, 0].mean(0), rtol=1e-4, atol=1e-5)

    def test_uc15_causal_with_more_queries(self):
        q, k = make(1, 1, 5, 4), make(1, 1, 3, 4, seed=1)
        compare(
            lambda a, b: F.scaled_dot_product_attention(
                a, b, b, is_causal=True
            ).contiguous(),
            q,
            k,
            rtol=1e-4,
            atol=1e-5,
        )

    def test_uc15_gradients_are_finite(self):
        leaves = [
            make(1, 1, n, 4, seed=n).to(DEVICE).requires_grad_() for n in (2, 3, 3)
        ]
        F.scaled_dot_product_attention(*leaves, self.mask.to(DEVICE)).sum().backward()
        assert all(leaf.grad.isfinite().all().item() for leaf in leaves)

    def test_uc15_plain_softmax_is_not_repaired(self):
        assert torch.softmax(on([-INF, -INF]), 0).isnan().all().item()
        assert torch.softmax(on([INF, 0.0]), 0)[0].isnan().item()


class TestUc17Seeds:
    def test_uc17_dropout_and_normal(self):
        x = torch.ones(100, device=DEVICE)
        torch.manual_seed(1)
        first, second = F.dropout(x), F.dropout(x)
        torch.manual_seed(1)
        assert torch.equal(F.dropout(x), first) and not torch.equal(first, second)
        assert not torch.equal(torch.randn_like(x), torch.randn_like(x))


class TestUc18ZeroSizes:
    @pytest.fixture(autouse=True)
    def leftovers(self):
        """Old values in recycled memory must not show."""
        for size in (1, 2, 6, 12, 64, 256):
            torch.full((size,), 77.0, device=DEVICE)

    def test_uc18_products(self):
        x, w = torch.ones(2, 0, device=DEVICE), torch.ones(3, 0, device=DEVICE)
        same(F.linear(x, w, on([1.0, 2, 3])), [[1, 2, 3]] * 2)
        same(F.linear(x, w), [[0, 0, 0]] * 2)
        same(x @ w.t(), [[0, 0, 0]] * 2)
        same(
            torch.addmm(torch.ones(2, 3, device=DEVICE), x, w.t(), beta=0.5),
            [[0.5] * 3] * 2,
        )
        a, b = torch.ones(2, 2, 0, device=DEVICE), torch.ones(2, 0, 2, device=DEVICE)
        total = torch.baddbmm(torch.ones(2, 2, 2, device=DEVICE), a, b, beta=0.25).sum()
        assert total.item() == 2
        assert (
            torch.ones(0, 9, device=DEVICE) @ torch.ones(9, device=DEVICE)
        ).shape == (0,)
        empty = torch.ones(0, device=DEVICE)
        assert torch.dot(empty, empty).item() == 0

    def test_uc18_convolution_and_cat(self):
        conv = nn.Conv2d(1, 2, 3).to(DEVICE)
        assert conv(torch.ones(0, 1, 5, 5, device=DEVICE)).shape == (0, 2, 3, 3)
        x = torch.ones(2, 3, device=DEVICE)
        assert torch.equal(torch.cat([torch.empty(0, device=DEVICE), x]), x)

    def test_uc18_reductions(self):
        empty, rows = torch.ones(0, device=DEVICE), torch.ones(3, 0, device=DEVICE)
        assert (empty.sum().item(), empty.prod().item()) == (0, 1)
        assert math.isnan(empty.mean().item())
        same(rows.sum(1), [0, 0, 0])
        same(rows.prod(1), [1, 1, 1])
        assert torch.ones(0, 3, device=DEVICE).amax(1).shape == (0,)
        assert empty.bool().any().item() is False and empty.bool().all().item() is True
        assert torch.softmax(torch.ones(2, 0, device=DEVICE), 1).shape == (2, 0)
        for function in (
            lambda: empty.max(),
            lambda: empty.argmax(),
            lambda: empty.amax(),
            lambda: rows.max(1),
        ):
            raises(function)

    def test_uc18_backward(self):
        compare_gradients(F.linear, torch.ones(2, 0), torch.ones(3, 0), torch.ones(3))
        compare_gradients(torch.mm, torch.ones(0, 3), torch.ones(3, 2))
        compare_gradients(lambda t: t.sum(1), torch.ones(3, 0))
        compare_gradients(lambda t: torch.softmax(t, 1), torch.ones(0, 4))
        compare_gradients(
            lambda t, w: F.layer_norm(t, (3,), w), torch.ones(0, 3), torch.ones(3)
        )


class TestUc19Nan:
    def test_uc19_reductions_and_pairs(self):
        z = on([1.0, NAN, 7, -INF, NAN])
        two = torch.tensor(2.0, device=DEVICE)
        assert math.isnan(z.max().item()) and math.isnan(z.min().item())
        assert z.argmax().item() == z.argmin().item() == 1
        same(torch.maximum(z, two), [2, NAN, 7, 2, NAN])
        same(torch.minimum(z, two), [1, NAN, 2, -INF, NAN])
        same(z.clamp(min=0), [1, NAN, 7, 0, NAN])
        same(torch.fmax(z, two), [2, 2, 7, 2, 2])
        same(z.topk(2).values, [NAN, NAN])
        same(z.sort().values, [-INF, 1, 7, NAN, NAN])
        same(z.relu(), [1, NAN, 7, 0, NAN])
        same(torch.cummax(on([1.0, NAN, 5]), 0).values, [1, NAN, NAN])

    def test_uc19_along_a_dim(self):
        x = on([[2, NAN], [NAN, 3], [5, 4]])
        values, indices = x.max(0)
        same(values, [NAN, NAN])
        same(indices, [1, 0])
        values, indices = x.min(1)
        same(values, [NAN, NAN, 4])
        same(indices, [1, 0, 1])

    @pytest.mark.parametrize("length", [1, 5, 33, 1000, 5000])
    def test_uc19_lengths_and_places(self, length):
        for place in {0, length // 2, length - 1}:
            x = make(length)
            x[place] = NAN
            d = x.to(DEVICE)
            assert math.isnan(d.max().item()) and math.isnan(d.amin().item())
            assert d.argmax().item() == d.argmin().item() == place


class TestUc20WideIntegers:
    def test_uc20_values(self):
        values = [-16777217, 16777219, -16777221]
        same(on(values, dtype=torch.int32).abs(), [abs(v) for v in values])
        values = [-(2**33 + 7), 2**53 + 1, -(2**62 + 1)]
        assert on(values).abs().tolist() == [abs(v) for v in values]
        assert (on([50331653, -50331653, 2**40 + 5]) % 7).tolist() == [1, 6, 0]
        assert (torch.arange(4, device=DEVICE) + 2**33).tolist() == [
            2**33 + i for i in range(4)
        ]
        assert (torch.arange(4, device=DEVICE) * 2**34).tolist() == [
            2**34 * i for i in range(4)
        ]
        assert (on([2**31 - 1], dtype=torch.int32) + 1).tolist() == [-(2**31)]
        assert (on([2**53]) == on([2**53 + 1])).item() is False
        assert on([2**53, 1, 1]).sum().item() == 9007199254740994
        assert on([2**62, 2**62 - 1]).max().item() == 2**62
        assert on([[0, 1], [2, 1], [1, 0]]).argmax(1).tolist() == [1, 0, 0]
        fives = torch.full((10,), 5, device=DEVICE)
        assert fives.gather(0, torch.arange(10, device=DEVICE)).tolist() == [5] * 10
        assert torch.full((2,), 2**62 + 1, device=DEVICE).tolist() == [2**62 + 1] * 2
        assert on([1]).clamp(min=2**53 + 1).item() == 2**53 + 1
        assert torch.where(on([True]), on([2**53 + 1]), 0).item() == 2**53 + 1
        assert on([2**53 + 1]).to(torch.int64).neg().item() == -(2**53) - 1


class TestUc22Division:
    a, b = [-7, 7, -7, 7, -1], [2, -2, -2, 2, 3]

    @pytest.mark.parametrize("dtype", SIGNED)
    def test_uc22_values(self, dtype):
        a, b = on(self.a, dtype=dtype), on(self.b, dtype=dtype)
        same(a / b, [-3.5, -3.5, 3.5, 3.5, -1 / 3])
        assert (a / b).dtype == torch.float32
        same(torch.div(a, b, rounding_mode="floor"), [-4, -4, 3, 3, -1])
        same(a // b, [-4, -4, 3, 3, -1])
        same(torch.div(a, b, rounding_mode="trunc"), [-3, -3, 3, 3, 0])
        same(a % b, [1, -1, -1, 1, 2])
        for divisor in (3, torch.tensor(3), torch.tensor(3, device=DEVICE)):
            same(torch.fmod(on([-7], dtype=dtype), divisor), [-1])

    def test_uc22_floats(self):
        same(on([1.0, -1, 0]) / 0.0, [INF, -INF, NAN])
        same(torch.floor_divide(on([-7.5, 7.5]), 2), [-4, 3])

    def test_uc22_all_pairs_of_bytes(self):
        every = torch.arange(-128, 128, dtype=torch.int8)
        a, b = torch.cartesian_prod(every, every[every != 0]).unbind(1)
        keep = ~((a == -128) & (b == -1))
        a, b = a[keep], b[keep]
        for function in (
            torch.floor_divide,
            torch.remainder,
            torch.fmod,
            lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        ):
            compare(function, a, b)


class TestUc23RepeatedIndices:
    def test_uc23_values(self):
        x = torch.zeros(4, device=DEVICE)
        x.index_put_((on([2, 2, 0, 2]),), on([1.0, 10, 5, 100]), accumulate=True)
        same(x, [5, 0, 111, 0])
        rows = torch.zeros(3, 2, device=DEVICE)
        rows.index_add_(0, on([1, 1, 0]), on([[1.0, 2], [3, 4], [5, 6]]))
        same(rows, [[5, 6], [4, 6], [0, 0]])
        same(
            torch.zeros(3, device=DEVICE).scatter_add(
                0, on([0, 0, 2, 0]), on([1.0, 2, 3, 4])
            ),
            [7, 0, 3],
        )
        w = torch.zeros(3, 1, device=DEVICE, requires_grad=True)
        F.embedding(on([1, 1, 0]), w).sum().backward()
        same(w.grad, [[1], [2], [0]])
        flags = torch.zeros(3, dtype=torch.bool, device=DEVICE)
        flags.index_add_(0, on([1, 1]), on([True, True]))
        same(flags, [False, True, False])

    def test_uc23_many_updates_are_exact_and_repeatable(self):
        index = torch.randint(
            0, 10, (100_000,), generator=torch.Generator().manual_seed(1)
        )
        values = torch.arange(100_000)
        expected = torch.zeros(10, dtype=torch.int64).scatter_add(0, index, values)
        for _ in range(3):
            x = torch.zeros(10, dtype=torch.int64, device=DEVICE)
            assert torch.equal(
                x.scatter_add(0, index.to(DEVICE), values.to(DEVICE)).cpu(), expected
            )
            x.index_put_((index.to(DEVICE),), values.to(DEVICE), accumulate=True)
            assert torch.equal(x.cpu(), expected)


class TestUc25BadIndices:
    def table(self) -> torch.Tensor:
        """The first rows of a larger buffer: what lies behind must not show."""
        return torch.arange(10.0, device=DEVICE).view(5, 2)[:3]

    def test_uc25_out_of_range(self):
        table = self.table()
        for function in (
            lambda: F.embedding(on([3]), table),
            lambda: F.embedding(on([-1]), table),
            lambda: table[on([3])],
            lambda: table[3],
            lambda: table.gather(0, on([[5, 0]])),
            lambda: table.index_select(0, on([-1])),
            lambda: F.embedding_bag(on([[3]]), table),
        ):
            raises(function)
        same(table[on([-1])], [[4, 5]])
        same(table[-1], [4, 5])

    def test_uc25_labels(self):
        x = on([[0.0, 1], [2, 0], [0, 3]])
        target = on([1, 0, -100])
        same(F.cross_entropy(x, target, reduction="none"), [0.31326, 0.12693, 0])
        assert F.cross_entropy(x, target).item() == pytest.approx(0.2201, abs=1e-4)
        ignored = F.cross_entropy(x, on([1, 0, 1]), ignore_index=1, reduction="none")
        same(ignored, [0, 0.12693, 0])
        raises(lambda: F.cross_entropy(x, target, ignore_index=-1))
        raises(lambda: F.cross_entropy(x, on([1, 0, 5])))
        assert math.isnan(F.cross_entropy(x, on([-100] * 3)).item())
        smooth = F.cross_entropy(x, target, label_smoothing=0.2)
        assert smooth.item() == pytest.approx(
            F.cross_entropy(x[:2], target[:2], label_smoothing=0.2).item(), abs=1e-6
        )


LENGTHS = (1, 2, 31, 33, 127, 257, 1021, 4097, 65_537, 1_000_003)


@pytest.mark.parametrize("length", LENGTHS)
def test_uc34_odd_lengths(length):
    close = {"rtol": 1e-5, "atol": 1e-4}
    with Grid() as grid:
        for dim in (0, 1):
            x = make(length, 2) if dim == 0 else make(2, length)
            for name, function in {
                "sum": lambda t, d=dim: t.double().sum(d),
                "max": lambda t, d=dim: t.amax(d),
                "min": lambda t, d=dim: t.amin(d),
                "argmax": lambda t, d=dim: t.argmax(d),
                "softmax": lambda t, d=dim: torch.softmax(t, d),
                "cumsum": lambda t, d=dim: t.double().cumsum(d),
            }.items():
                with grid.case(name, dim):
                    compare(function, x, **close)
        with grid.case("layer_norm"):
            compare(lambda t: F.layer_norm(t, (length,)), make(2, length), **close)
        if length <= 65_537:
            with grid.case("matmul"):
                # Whole numbers: exact in any order.
                whole = make(3, length).round()
                compare(lambda a: a @ a.t(), whole)
                compare(lambda a: a.t()[:33] @ a, whole)


class TestUc66SmallPack:
    def test_uc66_flips_and_sums(self):
        same(on([[1, 2, 3]]).flip(0), [[1, 2, 3]])
        same(
            torch.arange(6, device=DEVICE).view(1, 2, 3).flip([0, 2])[0],
            [[2, 1, 0], [5, 4, 3]],
        )
        same(on([1.0, 2, 3, 4]).view(1, 2, 2, 1, 1).sum(-3).view(-1), [3, 7])
        assert on([1.0, 2]).topk(0).values.shape == (0,)

    def test_uc66_signs_of_zero(self):
        zeros = on([-0.0, 0.0])
        for ours, signs in (
            (-zeros, [False, True]),
            (on([0.0]) * -1, [True]),
            (on([-0.3]).round(), [True]),
        ):
            assert ours.cpu().signbit().tolist() == signs
        same(1 / zeros, [-INF, INF])
        same(on([-0.3, 0.5, 1.5, 2.5]).round(), [0, 0, 2, 2])
        same(zeros.signbit(), [True, False])
        assert torch.atan2(on([-0.0]), on([-1.0])).item() == pytest.approx(-math.pi)

    def test_uc66_powers_sorts_and_arguments(self):
        same(on([0.0, NAN, -2]) ** 0, [1, 1, 1])
        raises(lambda: on([2]) ** -1)
        same(on([1, 1, 0, 1]).sort(stable=True).indices, [2, 0, 1, 3])
        with pytest.raises((RuntimeError, ValueError)):
            nn.ConvTranspose2d(1, 1, 3, output_padding=1).to(DEVICE)(
                torch.ones(1, 1, 4, 4, device=DEVICE)
            )
        conv = nn.Conv2d(1, 1, (3, 5), padding="same", dilation=(2, 3)).to(DEVICE)
        assert conv(torch.ones(1, 1, 20, 23, device=DEVICE)).shape == (1, 1, 20, 23)

    def test_uc66_argsort_of_many_columns(self):
        x = torch.arange(3 * 100_003, device=DEVICE).view(3, -1) % 7
        assert_same(x.argsort(dim=0, stable=True), x.cpu().argsort(dim=0, stable=True))


class TestUc28Uc29:
    def test_uc28_printing_warns_of_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            text = str(make(3, 4).to(DEVICE)[::2].t())
        assert text.endswith("device='tvarant:0')")

    def test_uc29_five_steps_with_a_bad_one(self):
        torch.manual_seed(0)
        model = nn.Linear(4, 2).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("tvarant", init_scale=256.0)
        for number in range(1, 6):
            optimizer.zero_grad()
            with torch.autocast("tvarant", dtype=torch.bfloat16):
                y = model(make(3, 4).to(DEVICE))
                loss = F.cross_entropy(y, on([0, 1, 1]))
            assert (y.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
            scaler.scale(loss).backward()
            if number == 3:
                model.weight.grad[0, 0] = INF
            before = model.weight.detach().clone()
            scaler.step(optimizer)
            scaler.update()
            assert torch.equal(before, model.weight) is (number == 3)
        assert scaler.get_scale() == 128.0
