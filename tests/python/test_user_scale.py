"""Cases of users about size: long messages, more than 2^31 elements.

See test_user_cases.py.
"""

from __future__ import annotations

import gc

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE

MAPPED = [{}, {"TVARANT_SIM_MAP": "0"}]


class TestUc12LongTransfers:
    @pytest.mark.parametrize("env", MAPPED)
    def test_uc12_there_and_back(self, script, env):
        done = script(
            """
import torch
MIB = 1 << 20
for size in (4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 64 * MIB, 100 * MIB + 3):
    host = torch.arange(size, dtype=torch.int32).mul_(2654435761 & 0x7fffffff)
    host = host.view(torch.uint8)[:size].clone()
    busy = torch.eye(512, device="tvarant") @ torch.eye(512, device="tvarant")
    x = host.to("tvarant")
    assert torch.equal(x.cpu(), host), size
    # Over bytes that queued work still reads, and a view with gaps.
    y = torch.zeros(size, dtype=torch.uint8, device="tvarant").add_(1)
    y.copy_(host)
    assert torch.equal(y.cpu(), host), size
    assert torch.equal(y[1::2].cpu(), host[1::2]), size
    assert x.add(1).cpu()[-1] == (host[-1] + 1)
print("equal")
""",
            env=env,
        )
        assert (done.stdout, done.stderr) == ("equal\n", "")

    @pytest.mark.parametrize("env", MAPPED)
    def test_uc12_cat_of_many(self, script, env):
        done = script(
            """
import torch
parts = [torch.full((3,), float(i), device="tvarant") for i in range(5000)]
whole = torch.cat(parts)
assert torch.equal(whole.cpu(), torch.arange(5000.0).repeat_interleave(3))
stacked = torch.stack(parts)
assert torch.equal(stacked.cpu().flatten(), whole.cpu())
print("equal")
""",
            env=env,
        )
        assert (done.stdout, done.stderr) == ("equal\n", "")

    @pytest.mark.parametrize("env", MAPPED)
    def test_uc12_checkpoint(self, script, env, tmp_path):
        path = str(tmp_path / "big.pt")
        done = script(
            f"""
import torch
x = torch.randn(3_000_000, device="tvarant")
torch.save({{"x": x, "view": x[5:]}}, {path!r})
again = torch.load({path!r})
assert again["x"].device == x.device and torch.equal(again["x"], x)
assert again["view"].data_ptr() == again["x"].data_ptr() + 20
print("equal")
""",
            env=env,
        )
        assert (done.stdout, done.stderr) == ("equal\n", "")


def needs(gib: float) -> None:
    """Skips where the device or the host has less memory than that left."""
    gc.collect()
    torch.tvarant.empty_cache()
    with open("/proc/meminfo") as lines:
        available = next(
            int(line.split()[1]) * 1024
            for line in lines
            if line.startswith("MemAvailable")
        )
    free = min(available, torch.tvarant.mem_get_info()[0])
    if free < (gib + 1) * (1 << 30):
        pytest.skip(f"needs {gib} GiB of free memory, there are {free / (1 << 30):.1f}")


@pytest.fixture
def tidy():
    yield
    gc.collect()
    torch.tvarant.empty_cache()


@pytest.mark.usefixtures("tidy")
class TestUc47ManyElements:
    # A little above 2^31, where an int wraps, and above 2^32.
    @pytest.mark.parametrize("bits", [31, 32])
    def test_uc47_bytes(self, bits):
        size = (1 << bits) + 4096
        needs(size / (1 << 30))
        x = torch.zeros(size, dtype=torch.uint8, device=DEVICE)
        marks = {1: 11, (1 << 31) - 1: 21, (1 << 31) + 5: 31, size - 1: 41}
        for place, value in marks.items():
            x[place : place + 1] = value
        places = torch.tensor([0, *marks], device=DEVICE)
        expected = [0, *marks.values()]
        assert x.index_select(0, places).tolist() == expected
        assert x[places].tolist() == expected
        assert x.gather(0, places).tolist() == expected
        assert x.take(places).tolist() == expected
        assert [x[i].item() for i in (0, *marks)] == expected
        assert x.sum(dtype=torch.int64).item() == sum(expected)
        assert x.argmax().item() == size - 1
        assert (x[(1 << 31) :]).max().item() == 41
        # Rows of 256 bytes.
        rows = x.view(-1, 256)
        last = torch.tensor([0, (1 << 23), rows.size(0) - 1], device=DEVICE)
        fetched = F.embedding(last, rows)
        assert fetched[1, 5].item() == 31
        assert fetched[2, 255].item() == 41
        assert fetched.sum(dtype=torch.int64).item() == 11 + 31 + 41
        # A view with gaps whose last offset lies past 2^31.
        thin = x[1 :: 1 << 20]
        assert thin.clone()[0].item() == 11
        thin.fill_(7)
        assert x[1 + ((thin.numel() - 1) << 20)].item() == 7
        assert thin.sum(dtype=torch.int64).item() == 7 * thin.numel()
        assert x[0].item() == 0

    def test_uc47_bool(self):
        size = (1 << 31) + 4096
        needs(size / (1 << 30))
        x = torch.zeros(size, dtype=torch.bool, device=DEVICE)
        x[-3] = True
        assert x.any().item()
        assert x.sum().item() == 1
        assert x.nonzero().tolist() == [[size - 3]]
        x.logical_not_()
        assert not x.all().item()
        assert x.sum().item() == size - 1
        assert not x[-3].item()
        x.fill_(True)
        assert x.all().item()

    def test_uc47_operators_at_the_end(self):
        size = (1 << 31) + 64
        needs(2 * size / (1 << 30))
        x = torch.ones(size, dtype=torch.int8, device=DEVICE)
        x[-1] = 5
        y = x + x
        assert y[-2:].tolist() == [2, 10]
        assert y[(1 << 31) - 2 : (1 << 31) + 2].tolist() == [2, 2, 2, 2]
        y.copy_(x)
        assert y[-2:].tolist() == [1, 5]
        y.index_fill_(0, torch.tensor([size - 2], device=DEVICE), 9)
        assert y[-3:].tolist() == [1, 9, 5]
        assert torch.equal(y[: -(1 << 31)], x[: -(1 << 31)])
        y.scatter_(
            0,
            torch.tensor([size - 3], device=DEVICE),
            torch.tensor([8], dtype=torch.int8, device=DEVICE),
        )
        assert y[-3:].tolist() == [8, 9, 5]
        assert y[0].item() == 1
        wide = x.view(2, -1)
        assert wide.sum(1, dtype=torch.int64).tolist() == [size // 2, size // 2 + 4]
        assert torch.cat([x[-2:], x[:1]]).tolist() == [1, 5, 1]
