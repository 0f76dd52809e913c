"""Views share storage and never leave the device; in-place writes reach the base."""

from __future__ import annotations

import pytest
import torch
from support import DEVICE, assert_same, make, mirror, to_device

pytestmark = pytest.mark.usefixtures("no_fallback")

VIEWS = {
    "slice": lambda x: x[1:3],
    "slice_step": lambda x: x[::2],
    "slice_inner": lambda x: x[:, 2:5],
    "select": lambda x: x[1],
    "select_inner": lambda x: x[:, 3],
    "index_many": lambda x: x[1:, ::2],
    "ellipsis": lambda x: x[..., 1],
    "none": lambda x: x[None, :, None],
    "element": lambda x: x[2, 3],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "transpose": lambda x: x.transpose(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "movedim": lambda x: x.movedim(0, 1),
    "view": lambda x: x.view(6, 4),
    "view_as": lambda x: x.view_as(torch.empty(3, 8)),
    "view_same_dtype": lambda x: x.view(torch.float32),
    "view_smaller_dtype": lambda x: x.view(torch.int16)[:, ::2],
    "view_same_size": lambda x: x.view(torch.int32),
    "reshape": lambda x: x.reshape(2, 3, 4),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "squeeze_all": lambda x: x[:1, :1].squeeze(),
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "split": lambda x: x.split(2)[1],
    "split_sizes": lambda x: x.split([1, 3])[1],
    "tensor_split": lambda x: x.tensor_split(3)[2],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "hsplit": lambda x: x.hsplit(2)[1],
    "vsplit": lambda x: x.vsplit(2)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "as_strided": lambda x: x.as_strided((2, 3), (7, 2), 1),
    "detach": lambda x: x.detach(),
    "alias": lambda x: torch.ops.aten.alias(x),
    "positive": lambda x: +x,
    "of_view": lambda x: x[1:].t()[2:, ::2],
    "real": lambda x: x.real,
    "atleast_3d": lambda x: torch.atleast_3d(x),
    "lift": lambda x: torch.ops.aten.lift_fresh(x),
    "indices_slice": lambda x: x[-2:, -3:-1],
}


def base() -> torch.Tensor:
    return torch.arange(24.0).view(4, 6) + 0.25


@pytest.mark.parametrize("name", VIEWS)
def test_view(name):
    function = VIEWS[name]
    x, d = base(), base().to(DEVICE)
    expected, ours = function(x), function(d)
    assert ours.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()
    assert ours.storage_offset() == expected.storage_offset()
    assert ours.data_ptr() - d.data_ptr() == expected.data_ptr() - x.data_ptr()
    assert_same(ours, expected)
    expected.zero_()
    ours.zero_()
    assert_same(d, x)


@pytest.mark.parametrize("name", VIEWS)
def test_no_launch_is_made(name):
    d = base().to(DEVICE)
    torch.tvarant.synchronize()
    before = torch.tvarant.counters()
    VIEWS[name](d)
    torch.tvarant.synchronize()
    after = torch.tvarant.counters()
    assert after["launches"] == before["launches"]
    assert after["round_trips"] == before["round_trips"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.expand(4, 6),
        lambda x: x.expand_as(torch.empty(2, 4, 6)),
        lambda x: x.broadcast_to(3, 4, 6),
        lambda x: torch.broadcast_tensors(x, torch.empty(4, 6, device=x.device))[0],
    ],
)
def test_expand(function):
    x, d = base()[:, :1].clone(), base()[:, :1].clone().to(DEVICE)
    assert_same(function(d), function(x))
    assert function(d).data_ptr() == d.data_ptr()
    assert_same(function(d).clone(), function(x).clone())
    assert_same(function(d).contiguous(), function(x).contiguous())


def test_complex_views(compare):
    z = make(3, 4, dtype=torch.complex64)
    d = mirror(z)
    assert torch.view_as_real(d).data_ptr() == d.data_ptr()
    for function in (
        torch.view_as_real,
        lambda t: t.real,
        lambda t: t.imag,
        lambda t: torch.view_as_complex(torch.view_as_real(t)),
        lambda t: t.conj(),
        lambda t: t.conj().imag,
        lambda t: t.mH,
    ):
        assert_same(function(d).clone(), function(z).clone())

    def write(t):
        t.real.fill_(2)
        t.imag[1:] = 3
        t.conj()[0] = 1j
        return t

    compare(write, z.clone())


class TestWritesThroughViews:
    @pytest.mark.parametrize(
        "write",
        [
            lambda x: x[1].fill_(9),
            lambda x: x[:, 1].copy_(torch.arange(4.0)),
            lambda x: x[1:3, ::2].mul_(2),
            lambda x: x.t()[2].add_(x[0, 0]),
            lambda x: x.diagonal().sub_(1),
            lambda x: x.view(-1)[5:9].zero_(),
            lambda x: x.unbind()[2].neg_(),
            lambda x: x.__setitem__((slice(None), 2), 7.0),
            lambda x: x.__setitem__((slice(1, 3), slice(None)), x[:2].clone()),
            lambda x: x.__setitem__(1, torch.tensor(4.0)),
            lambda x: x.__setitem__((..., slice(0, 6, 3)), x[..., 1:3].clone()),
            lambda x: x.view(torch.int32).fill_(0x40000000),
            lambda x: torch.add(x[0], 1, out=x[3]),
            lambda x: torch.neg(x[:2].t().clone(), out=x[2:].t()),
        ],
    )
    def test_write(self, write):
        x, d = base(), base().to(DEVICE)
        write(x)
        write(d)
        assert_same(d, x)

    def test_neighbours_are_untouched(self):
        guard_before = torch.full((64,), 7.0, device=DEVICE)
        x = torch.zeros(5, 6, device=DEVICE)
        guard_after = torch.full((64,), 7.0, device=DEVICE)
        inner = x[1:4, 1:5]
        inner.normal_().exp_().isfinite()
        inner.copy_(torch.ones(3, 4))
        host = x.cpu()
        assert host.sum() == 12 and host[1:4, 1:5].sum() == 12
        assert (guard_before == 7).all().item() and (guard_after == 7).all().item()


class TestAutogradThroughViews:
    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x[1:3].sum() + x[:, 2].pow(2).sum(),
            lambda x: x.t()[2:].reshape(-1).mul(3).sum(),
            lambda x: x.expand(2, 4, 6).mul(2).sum(),
            lambda x: x.diagonal().pow(2).sum(),
            lambda x: x.unbind(1)[1].exp().sum(),
            lambda x: torch.stack(x.chunk(2)).pow(3).sum(),
            lambda x: x.as_strided((3, 2), (6, 1), 1).pow(2).sum(),
            lambda x: x.permute(1, 0).unsqueeze(0).squeeze().narrow(0, 1, 2).sum(),
        ],
    )
    def test_gradient(self, function):
        grads = []
        for x in (base() * 0.1, (base() * 0.1).to(DEVICE)):
            leaf = x.requires_grad_()
            function(leaf).backward()
            grads.append(leaf.grad)
        assert_same(grads[1], grads[0])

    def test_in_place_on_a_view(self):
        grads = []
        for device in ("cpu", DEVICE):
            leaf = base().to(device).requires_grad_()
            y = leaf * 2
            y[1].mul_(3)
            y[:, 2].add_(leaf[:, 3])
            y.sum().backward()
            grads.append(leaf.grad)
        assert_same(grads[1], grads[0])

    def test_hooks_and_views_of_parameters(self):
        w = torch.nn.Parameter(base().to(DEVICE))
        seen = []
        w.register_hook(lambda grad: seen.append(grad.shape) or grad * 2)
        w[2:].sum().backward()
        assert seen == [torch.Size([4, 6])]
        assert w.grad[2:].eq(2).all().item() and w.grad[:2].eq(0).all().item()


def test_tensors_of_a_nest_share_nothing():
    first, second = to_device([base(), base()])
    first.zero_()
    assert_same(second, base())
