"""torch.save and torch.load in all directions."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from support import DEVICE, assert_same, make
from torch import nn


def saved(value) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    model(make(5, 4).to(DEVICE)).sum().backward()
    optimizer.step()
    return model, optimizer


class TestLocations:
    @pytest.mark.parametrize("weights_only", [True, False])
    @pytest.mark.parametrize(
        "location,device",
        [
            (None, "tvarant"),
            ("cpu", "cpu"),
            (torch.device("cpu"), "cpu"),
            ("tvarant", "tvarant"),
            ("tvarant:0", "tvarant"),
            (torch.device("tvarant"), "tvarant"),
            ({"tvarant:0": "cpu"}, "cpu"),
            ({"cuda:0": "cpu"}, "tvarant"),
            (lambda storage, place: storage, "cpu"),
        ],
    )
    def test_from_the_device(self, location, device, weights_only):
        model, optimizer = trained()
        file = saved({"model": model.state_dict(), "opt": optimizer.state_dict()})
        loaded = torch.load(file, map_location=location, weights_only=weights_only)
        for name, value in model.state_dict().items():
            assert loaded["model"][name].device.type == device
            assert torch.equal(loaded["model"][name].cpu(), value.cpu())
        state = loaded["opt"]["state"][0]
        assert state["exp_avg"].device.type == device

    @pytest.mark.parametrize("location", ["tvarant", "tvarant:0", DEVICE])
    def test_from_the_cpu_to_the_device(self, location):
        x = torch.load(saved(make(3, 4)), map_location=location)
        assert_same(x, make(3, 4))

    def test_unknown_location(self):
        with pytest.raises(RuntimeError, match="tvarnt"):
            torch.load(saved(make(2).to(DEVICE)), map_location="tvarnt")

    def test_missing_device(self):
        with pytest.raises(RuntimeError, match="1"):
            torch.load(saved(make(2).to(DEVICE)), map_location="tvarant:1")

    def test_tag_in_the_file(self):
        data = saved(make(2).to(DEVICE)).getvalue()
        assert b"tvarant:0" in data and b"privateuse" not in data

    def test_old_format(self):
        buffer = io.BytesIO()
        x = make(3, 4).to(DEVICE)
        torch.save([x, x[1]], buffer, _use_new_zipfile_serialization=False)
        buffer.seek(0)
        first, view = torch.load(buffer)
        assert_same(first, make(3, 4))
        assert view.data_ptr() == first.data_ptr() + 16

    def test_mmap(self, tmp_path):
        torch.save(make(50, 4), tmp_path / "x.pt")
        x = torch.load(tmp_path / "x.pt", mmap=True, map_location="cpu").to(DEVICE)
        assert_same(x, make(50, 4))

    def test_read_where_the_package_is_not_loaded(self, fresh_script, tmp_path):
        torch.save({"x": make(3).to(DEVICE)}, tmp_path / "x.pt")
        done = fresh_script(
            f"""
import torch, sys
assert "torch_tvarant" not in sys.modules
x = torch.load({str(tmp_path / "x.pt")!r}, map_location="cpu")["x"]
print(x.tolist() == {make(3).tolist()!r})
""",
            env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TVARANT_ENDPOINT": "unix:/x"},
        )
        assert done.stdout.strip() == "True", done.stderr


class TestContent:
    def test_views_stay_views_and_strides_stay(self):
        x = make(4, 6).to(DEVICE)
        base, row, transposed = torch.load(saved([x, x[1], x.t()]))
        row.fill_(0)
        assert base[1].sum().item() == 0
        assert transposed.stride() == (1, 6)

    def test_parameter_and_gradient_flag(self):
        parameter = nn.Parameter(make(2).to(DEVICE))
        loaded = torch.load(saved(parameter))
        assert isinstance(loaded, nn.Parameter) and loaded.requires_grad
        assert loaded.is_tvarant

    def test_resume(self):
        """Training goes on after save and load as if nothing had happened."""
        model, optimizer = trained()
        twin = copy.deepcopy(model)
        twin_optimizer = torch.optim.Adam(twin.parameters())
        file = saved({"model": model.state_dict(), "opt": optimizer.state_dict()})
        loaded = torch.load(file, map_location="cpu")
        twin.load_state_dict(loaded["model"])
        twin_optimizer.load_state_dict(loaded["opt"])
        for m, o in ((model, optimizer), (twin, twin_optimizer)):
            o.zero_grad()
            m(make(5, 4).to(DEVICE)).pow(2).sum().backward()
            o.step()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            assert torch.equal(a, b)

    def test_load_state_dict_across_devices(self):
        model, _ = trained()
        host = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        host.load_state_dict(model.state_dict())
        assert host[0].weight.device.type == "cpu"
        model.load_state_dict(host.state_dict())
        assert_same(model[0].weight, host[0].weight)
        model.load_state_dict(host.state_dict(), assign=True)
        assert model[0].weight.device.type == "cpu"

    def test_random_state(self):
        torch.tvarant.manual_seed(3)
        state = torch.load(saved(torch.tvarant.get_rng_state()))
        first = torch.rand(4, device=DEVICE)
        torch.tvarant.set_rng_state(state)
        assert torch.equal(torch.rand(4, device=DEVICE), first)
