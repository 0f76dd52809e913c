"""Tensors as objects: storage, factories, numbers out of them, deep copies."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from support import DEVICE, DTYPES, assert_same, compare, make, mirror
from torch import nn


class TestFactories:
    @pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64])
    def test_each_dtype(self, dtype, no_fallback):
        for make_one in (torch.zeros, torch.ones, torch.empty):
            x = make_one(3, 4, dtype=dtype, device=DEVICE)
            assert (x.dtype, x.device, x.stride()) == (dtype, DEVICE, (4, 1))
        assert_same(
            torch.ones(3, dtype=dtype, device=DEVICE), torch.ones(3, dtype=dtype)
        )
        assert_same(
            torch.full((2, 2), 1, dtype=dtype, device=DEVICE),
            torch.full((2, 2), 1, dtype=dtype),
        )
        value = [1, 0, 1]
        assert_same(
            torch.tensor(value, dtype=dtype, device=DEVICE),
            torch.tensor(value, dtype=dtype),
        )
        x = torch.empty(2, 3, dtype=dtype, device=DEVICE)
        assert_same(x.new_zeros(2), torch.zeros(2, dtype=dtype))
        assert_same(x.new_ones(2), torch.ones(2, dtype=dtype))
        assert_same(x.new_full((2,), 1), torch.full((2,), 1, dtype=dtype))
        assert_same(x.new_tensor(value), torch.tensor(value, dtype=dtype))
        assert x.new_empty(0).device == DEVICE
        assert_same(torch.zeros_like(x), torch.zeros(2, 3, dtype=dtype))

    def test_strides(self):
        x = torch.empty_strided((2, 3), (1, 2), device=DEVICE)
        assert x.stride() == (1, 2)
        assert torch.empty_like(x).stride() == (1, 2)
        assert x.new_empty_strided((2, 2), (5, 1)).stride() == (5, 1)
        image = torch.empty(
            2, 3, 4, 5, device=DEVICE, memory_format=torch.channels_last
        )
        assert (
            image.stride()
            == torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride()
        )
        assert image.is_contiguous(memory_format=torch.channels_last)
        assert torch.zeros_like(image).stride() == image.stride()
        volume = torch.empty(
            1, 2, 3, 4, 5, device=DEVICE, memory_format=torch.channels_last_3d
        )
        assert volume.is_contiguous(memory_format=torch.channels_last_3d)

    def test_channels_last_is_kept_by_ops(self):
        x = make(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
        compare(lambda t: t + 1, x)
        compare(lambda t: (t * 2).relu().neg(), x)
        compare(lambda t: t.contiguous(), x)
        compare(lambda t: t + t.contiguous(), x)
        compare(lambda t: torch.where(t > 0, t, t.neg()), x)

    def test_bad_arguments(self):
        with pytest.raises(RuntimeError):
            torch.empty(-1, device=DEVICE)
        with pytest.raises(RuntimeError):
            torch.empty_strided((2, 2), (-1, 1), device=DEVICE)
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.empty(2, device=DEVICE, dtype=torch.quint8)

    def test_from_numpy(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        x = torch.from_numpy(array).to(DEVICE)
        array[:] = -1
        assert_same(x, torch.arange(6.0).view(2, 3))
        assert_same(torch.as_tensor(array, device=DEVICE), torch.full((2, 3), -1.0))
        assert_same(torch.asarray(array, device=DEVICE), torch.full((2, 3), -1.0))


class TestOutOfIt:
    @pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64])
    def test_item_and_tolist(self, dtype, no_fallback):
        x = make(3, 4, dtype=dtype)
        d = mirror(x)
        assert d.tolist() == x.tolist()
        assert d.t()[1:, ::2].tolist() == x.t()[1:, ::2].tolist()
        assert d[2, 3].item() == x[2, 3].item()
        assert type(d[0, 0].item()) is type(x[0, 0].item())

    def test_python_numbers(self):
        x = torch.tensor(2.75, device=DEVICE)
        assert float(x) == 2.75 and int(x) == 2 and bool(x)
        assert complex(x) == 2.75 + 0j
        assert f"{x:.1f}" == "2.8"
        assert [10, 20, 30][torch.tensor(1, device=DEVICE)] == 20
        assert 0.5 in torch.tensor([0.5, 1], device=DEVICE)
        assert len(torch.ones(4, device=DEVICE)) == 4
        assert [v.item() for v in torch.arange(3, device=DEVICE)] == [0, 1, 2]
        with pytest.raises(RuntimeError, match="one element|converted to Scalar"):
            torch.ones(2, device=DEVICE).item()
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(torch.ones(2, device=DEVICE))

    def test_numpy_says_to_copy_first(self):
        x = torch.ones(2, device=DEVICE)
        with pytest.raises(TypeError, match="first"):
            x.numpy()
        with pytest.raises(TypeError, match="first"):
            np.asarray(x)
        assert x.numpy(force=True).tolist() == [1, 1]
        assert x.cpu().numpy().tolist() == [1, 1]

    def test_equal_and_allclose(self):
        x = make(5).to(DEVICE)
        assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1)
        assert not torch.equal(x, x[:4])
        assert torch.allclose(x, x + 1e-9)
        assert (x == x).all() and not (x != x).any()


class TestStorage:
    def test_resize(self):
        x = torch.arange(6.0, device=DEVICE)
        x.resize_(2, 2)
        assert_same(x, torch.arange(4.0).view(2, 2))
        x.resize_(3, 4)
        assert x.shape == (3, 4) and x.view(-1)[:6].tolist() == [0, 1, 2, 3, 4, 5]
        x.resize_(0)
        assert x.numel() == 0
        x.resize_as_(torch.empty(2, 5, device=DEVICE))
        assert x.shape == (2, 5)
        y = torch.empty(0, device=DEVICE)
        y.resize_(2, 3, 4, 5, memory_format=torch.channels_last)
        assert y.is_contiguous(memory_format=torch.channels_last)

    def test_resize_of_a_view_keeps_its_offset(self):
        x = torch.arange(8.0, device=DEVICE)
        view = x[3:]
        view.resize_(2)
        assert view.tolist() == [3, 4]

    def test_storage_object(self):
        x = torch.arange(4, dtype=torch.int32, device=DEVICE)
        storage = x.untyped_storage()
        assert storage.device == DEVICE and storage.nbytes() == 16
        assert storage.data_ptr() == x.data_ptr() != 0
        assert storage.cpu().tolist() == [
            0,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            2,
            0,
            0,
            0,
            3,
            0,
            0,
            0,
        ]
        copy_of = storage.clone()
        assert copy_of.data_ptr() != storage.data_ptr() and copy_of.device == DEVICE
        storage.resize_(32)
        assert storage.nbytes() == 32 and x.tolist() == [0, 1, 2, 3]
        storage.resize_(0)
        assert storage.nbytes() == 0
        made = torch.UntypedStorage(12, device=DEVICE)
        assert made.nbytes() == 12 and made.device == DEVICE

    def test_set(self):
        x, y = torch.zeros(2, device=DEVICE), torch.arange(6.0, device=DEVICE)
        x.set_(y)
        assert x.data_ptr() == y.data_ptr() and x.tolist() == y.tolist()
        x.set_(y.untyped_storage(), 1, (2, 2), (2, 1))
        assert x.tolist() == [[1, 2], [3, 4]]
        x.set_(y.untyped_storage())
        assert x.shape == (6,)
        x.set_()
        assert x.numel() == 0 and x.device == DEVICE
        with pytest.raises(RuntimeError):
            x.set_(torch.zeros(2))

    def test_data(self):
        parameter = nn.Parameter(torch.zeros(3, device=DEVICE))
        replacement = torch.ones(3, device=DEVICE)
        parameter.data = replacement
        assert parameter.data_ptr() == replacement.data_ptr()
        parameter.data[0] = 5
        assert replacement[0].item() == 5
        parameter.data = torch.ones(2)
        assert parameter.device.type == "cpu"
        parameter.data = torch.ones(2, device=DEVICE)
        assert parameter.is_tvarant and parameter.requires_grad

    def test_swap(self):
        a, b = torch.zeros(1, device=DEVICE), torch.ones(1, device=DEVICE)
        torch.utils.swap_tensors(a, b)
        assert (a.item(), b.item()) == (1.0, 0.0)

    def test_share_memory_is_nothing(self):
        x = torch.ones(2, device=DEVICE)
        assert x.is_shared() in (True, False)

    def test_sparse_and_dlpack_answer_clearly(self):
        x = torch.eye(3, device=DEVICE)
        for function in (lambda: x.to_sparse(), lambda: torch.from_dlpack(x)):
            try:
                result = function()
            except Exception as error:
                assert str(error)
            else:
                dense = result.to_dense() if result.is_sparse else result
                assert torch.equal(dense.cpu(), torch.eye(3))
        assert (x + 1).sum().item() == 12


class TestShapes:
    @pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4), ()])
    def test_zero_size_and_scalar(self, shape, no_fallback):
        x = torch.ones(shape)
        for function in (
            lambda t: t + 1,
            lambda t: t.clone(),
            lambda t: t.contiguous(),
            lambda t: t.sum(),
            lambda t: t.to(torch.int32),
            lambda t: t.unsqueeze(0),
            lambda t: t.reshape(-1),
            lambda t: t > 0,
            lambda t: torch.cat([t.reshape(-1), t.reshape(-1)]),
            lambda t: t.fill_(3).mul_(2),
            lambda t: t.abs().sqrt().exp(),
        ):
            compare(function, x)
        assert mirror(x).tolist() == x.tolist()

    def test_scalar_ops(self, no_fallback):
        x = torch.tensor(3.0)
        for function in (
            lambda t: t * t + 1,
            lambda t: t.expand(3, 3).sin(),
            lambda t: t.view(1, 1),
            lambda t: t.max(),
            lambda t: t.softmax(0),
            lambda t: torch.stack([t, t]),
            lambda t: t.add_(1),
        ):
            compare(function, x)

    def test_many_dimensions(self, no_fallback):
        x = make(2, 1, 3, 1, 2, 1, 2)
        compare(lambda t: t.permute(6, 0, 5, 1, 4, 2, 3) * 2, x)
        compare(lambda t: t + t[0, 0, 0, 0, 0], x)
        compare(lambda t: t.sum((0, 2, 4)), x)


class TestCopies:
    def test_deepcopy(self):
        base = make(2, 3).to(DEVICE)
        assert copy.deepcopy(base.t()).stride() == (1, 3)
        first, view = copy.deepcopy([base, base[1:]])
        first[1, 0] = 99
        assert view[0, 0].item() == 99 and base[1, 0].item() != 99
        twin = copy.deepcopy(nn.Parameter(base))
        assert isinstance(twin, nn.Parameter) and twin.requires_grad
        leaf = base.clone().requires_grad_()
        leaf.grad = torch.ones_like(base)
        twin = copy.deepcopy(leaf)
        assert twin.grad.data_ptr() != leaf.grad.data_ptr()
        assert_same(twin.grad, torch.ones(2, 3))

    def test_copy_shares(self):
        x = make(3).to(DEVICE)
        assert copy.copy(x).data_ptr() == x.data_ptr()

    def test_pickle(self):
        x = make(3, 4).to(DEVICE)
        assert_same(pickle.loads(pickle.dumps(x.t())), make(3, 4).t())
        model = pickle.loads(pickle.dumps(nn.Linear(2, 2).to(DEVICE)))
        assert model.weight.is_tvarant


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        return self.out(self.embed(x))


class TestModules:
    def test_to_keeps_parameters(self):
        model = Tied()
        before = dict(model.named_parameters())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.to(DEVICE)
        assert all(p is before[name] for name, p in model.named_parameters())
        assert model.steps.is_tvarant
        model(torch.tensor([1, 2], device=DEVICE)).sum().backward()
        old = model.embed.weight.detach().clone()
        optimizer.step()
        assert not torch.equal(model.embed.weight, old)
        model.to("cpu")
        assert all(p is before[name] for name, p in model.named_parameters())
        assert model.embed.weight.device.type == "cpu"

    def test_tied_weights_stay_tied(self):
        model = Tied().to(DEVICE)
        assert model.out.weight is model.embed.weight
        twin = copy.deepcopy(model)
        assert twin.out.weight is twin.embed.weight
        assert twin.out.weight is not model.out.weight
        moved = copy.deepcopy(model).to("cpu").to(DEVICE)
        assert moved.out.weight is moved.embed.weight

    def test_conversions(self):
        model = nn.Linear(2, 2).to(DEVICE, torch.float64)
        assert model.weight.dtype == torch.float64 and model.weight.is_tvarant
        assert model.half().weight.dtype == torch.float16
        assert model.cpu().weight.device.type == "cpu"
        assert nn.Linear(2, 2, device="meta").to_empty(device=DEVICE).weight.is_tvarant
        channels = nn.Conv2d(2, 3, 3).to(DEVICE, memory_format=torch.channels_last)
        assert channels.weight.is_contiguous(memory_format=torch.channels_last)

    def test_optimizer_deepcopy(self):
        model = nn.Linear(2, 2).to(DEVICE)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 2, device=DEVICE)).sum().backward()
        optimizer.step()
        twin = copy.deepcopy(optimizer)
        ours = next(iter(optimizer.state.values()))["exp_avg"]
        theirs = next(iter(twin.state.values()))["exp_avg"]
        assert torch.equal(ours, theirs) and ours.data_ptr() != theirs.data_ptr()
