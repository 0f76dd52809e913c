"""Memory of the device: statistics, reuse in stream order, pinned memory."""

from __future__ import annotations

import gc

import pytest
import torch
from support import DEVICE, make

MIB = 1 << 20


@pytest.fixture(autouse=True)
def clean():
    gc.collect()
    torch.tvarant.synchronize()
    torch.tvarant.empty_cache()
    torch.tvarant.reset_peak_memory_stats()


class TestStatistics:
    def test_allocated(self):
        base = torch.tvarant.memory_allocated()
        x = torch.empty(3 * MIB, dtype=torch.uint8, device="tvarant")
        assert torch.tvarant.memory_allocated() - base == 3 * MIB
        view = x[10:]
        del x
        assert torch.tvarant.memory_allocated() - base == 3 * MIB
        del view
        assert torch.tvarant.memory_allocated() == base

    def test_peak(self):
        base = torch.tvarant.memory_allocated()
        x = torch.empty(8 * MIB, dtype=torch.uint8, device="tvarant")
        del x
        assert torch.tvarant.max_memory_allocated() - base >= 8 * MIB
        assert torch.tvarant.max_memory_reserved() >= 8 * MIB
        torch.tvarant.reset_peak_memory_stats()
        assert torch.tvarant.max_memory_allocated() == torch.tvarant.memory_allocated()
        torch.tvarant.reset_max_memory_allocated()
        assert torch.tvarant.max_memory_allocated() == base

    def test_cache(self):
        x = torch.empty(32 * MIB, dtype=torch.uint8, device="tvarant")
        reserved = torch.tvarant.memory_reserved()
        del x
        assert torch.tvarant.memory_reserved() == reserved
        torch.tvarant.synchronize()
        torch.tvarant.empty_cache()
        assert torch.tvarant.memory_reserved() <= reserved - 32 * MIB

    def test_cached_block_is_used_again(self):
        x = torch.empty(32 * MIB, dtype=torch.uint8, device="tvarant")
        reserved = torch.tvarant.memory_reserved()
        address = x.data_ptr()
        del x
        x = torch.empty(32 * MIB, dtype=torch.uint8, device="tvarant")
        assert x.data_ptr() == address
        assert torch.tvarant.memory_reserved() == reserved

    def test_mem_get_info(self):
        free, total = torch.tvarant.mem_get_info()
        assert 0 < free <= total == torch.tvarant.get_device_properties().total_memory
        x = torch.empty(64 * MIB, dtype=torch.uint8, device="tvarant")
        assert torch.tvarant.mem_get_info("tvarant")[0] <= free - 64 * MIB
        del x
        torch.tvarant.synchronize()
        torch.tvarant.empty_cache()
        assert torch.tvarant.mem_get_info(0)[0] == free

    def test_stats_have_cudas_keys(self):
        x = torch.ones(4, device="tvarant")
        stats = torch.tvarant.memory_stats()
        for group in ("allocated_bytes", "reserved_bytes", "active_bytes"):
            for pool in ("all", "large_pool", "small_pool"):
                for column in ("current", "peak", "allocated", "freed"):
                    assert f"{group}.{pool}.{column}" in stats
        for name in ("allocation", "segment", "active"):
            assert f"{name}.all.current" in stats
        assert {"num_ooms", "num_alloc_retries"} <= set(stats)
        assert stats["allocation.all.current"] >= 1
        nested = torch.tvarant.memory_stats_as_nested_dict()
        assert nested["allocated_bytes"]["all"]["current"] >= x.nbytes

    def test_accumulated(self):
        torch.tvarant.reset_accumulated_memory_stats()
        torch.empty(MIB, dtype=torch.uint8, device="tvarant")
        stats = torch.tvarant.memory_stats()
        assert stats["allocated_bytes.all.allocated"] == MIB
        assert stats["allocated_bytes.all.freed"] == MIB
        torch.tvarant.reset_accumulated_memory_stats()
        assert torch.tvarant.memory_stats()["allocation.all.allocated"] == 0

    def test_out_of_memory_is_counted(self):
        before = torch.tvarant.memory_stats()["num_ooms"]
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**40, dtype=torch.uint8, device="tvarant")
        assert torch.tvarant.memory_stats()["num_ooms"] == before + 1

    def test_summary(self):
        x = torch.empty(5 * MIB, dtype=torch.uint8, device="tvarant")
        text = torch.tvarant.memory_summary()
        assert "Allocated memory" in text and "large pool" in text and "MiB" in text
        assert "large pool" not in torch.tvarant.memory_summary(abbreviated=True)
        assert x.numel() == 5 * MIB

    def test_snapshot(self):
        x = torch.empty(5 * MIB, dtype=torch.uint8, device="tvarant")
        segments = torch.tvarant.memory_snapshot()
        assert sum(s["total_size"] for s in segments) == torch.tvarant.memory_reserved()
        holder = [
            s
            for s in segments
            if s["address"] <= x.data_ptr() < s["address"] + s["total_size"]
        ]
        assert len(holder) == 1
        assert sum(b["size"] for b in holder[0]["blocks"]) == holder[0]["total_size"]

    def test_fragments_join_again(self):
        parts = [
            torch.empty(2 * MIB, dtype=torch.uint8, device="tvarant") for _ in range(16)
        ]
        reserved = torch.tvarant.memory_reserved()
        del parts[::2]
        del parts
        torch.tvarant.synchronize()
        torch.tvarant.empty_cache()
        assert torch.tvarant.memory_reserved() <= reserved - 32 * MIB


class TestReuse:
    def test_freed_block_keeps_the_order_of_its_stream(self):
        """A block freed with work queued may be taken again by the same stream."""
        w = torch.eye(256, device="tvarant")
        for i in range(50):
            x = torch.full((256, 256), float(i), device="tvarant")
            y = x @ w
            del x
            z = torch.full((256, 256), -1.0, device="tvarant")
            assert y[3, 5].item() == i
            assert z[0, 0].item() == -1

    def test_upload_into_a_block_that_is_still_read(self):
        w = torch.eye(512, device="tvarant")
        host = torch.full((512, 512), 5.0)
        for _ in range(10):
            x = torch.full((512, 512), 3.0, device="tvarant")
            y = x @ w @ w
            del x
            fresh = host.to("tvarant")
            assert y.sum().item() == 3 * 512 * 512
            assert fresh.sum().item() == 5 * 512 * 512

    def test_record_stream_holds_a_block(self):
        side = torch.tvarant.Stream()
        for i in range(10):
            x = torch.full((512, 512), float(i), device="tvarant")
            side.wait_stream(torch.tvarant.current_stream())
            with torch.tvarant.stream(side):
                w = torch.eye(512, device="tvarant")
                for _ in range(8):
                    w = w @ w
                y = x @ w
            x.record_stream(side)
            del x
            torch.full((512, 512), -9.0, device="tvarant")
            torch.tvarant.current_stream().wait_stream(side)
            assert (y == i).all().item()
            y.record_stream(torch.tvarant.current_stream())

    def test_other_streams_blocks_are_not_taken_while_in_use(self):
        side = torch.tvarant.Stream()
        with torch.tvarant.stream(side):
            for i in range(10):
                x = torch.full((512, 512), float(i), device="tvarant")
                y = x @ torch.eye(512, device="tvarant")
                del x
                with torch.tvarant.stream(torch.tvarant.default_stream()):
                    torch.full((512, 512), -9.0, device="tvarant")
                assert (y == i).all().item()

    def test_zero_size_has_no_memory(self):
        base = torch.tvarant.memory_allocated()
        x = torch.empty(0, 5, device="tvarant")
        assert torch.tvarant.memory_allocated() == base
        assert x.data_ptr() == 0

    def test_addresses_are_aligned_and_offset_by_views(self):
        x = torch.empty(100, device="tvarant")
        assert x.data_ptr() % 64 == 0
        assert x[3:].data_ptr() == x.data_ptr() + 12


class TestPinned:
    def test_is_pinned(self):
        x = torch.randn(100).pin_memory()
        assert x.is_pinned() and not torch.randn(100).is_pinned()
        assert x[10:].is_pinned()
        assert torch.empty(10, pin_memory=True).is_pinned()
        assert not torch.empty(10, device="tvarant").is_pinned()

    def test_keeps_values(self):
        x = torch.randn(1000)
        assert torch.equal(x.pin_memory(), x)
        assert torch.equal(x.pin_memory().to("tvarant", non_blocking=True).cpu(), x)

    def test_load_by_data_loader(self):
        data = torch.utils.data.TensorDataset(torch.arange(40.0))
        loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
        total = 0.0
        for (batch,) in loader:
            assert batch.is_pinned()
            total += batch.to("tvarant", non_blocking=True).sum().item()
        assert total == sum(range(40))

    @pytest.mark.parametrize("size", [1000, 65_536, 300_000, 20_000_001])
    def test_both_ways_in_place(self, size):
        torch.ones(1, device=DEVICE)
        x = torch.arange(size, dtype=torch.int32).pin_memory()
        there = x.to(DEVICE) + 1
        x.fill_(-1)  # a blocking copy has taken the bytes
        back = torch.empty(size, dtype=torch.int32, pin_memory=True)
        back.copy_(there)
        assert torch.equal(back, torch.arange(1, size + 1, dtype=torch.int32))
        part = torch.empty(size, dtype=torch.int32, pin_memory=True)[size // 3 :]
        part.copy_(there[size // 3 :])
        assert torch.equal(part, back[size // 3 :])
        assert torch.equal(back.to(DEVICE)[5:9].cpu(), back[5:9])

    @pytest.mark.filterwarnings("ignore:pinned memory of")  # beyond the limit
    def test_reuse_and_release(self):
        torch.ones(1, device=DEVICE)
        for turn in range(400):  # more blocks than a session may have at once
            x = torch.full((100_000,), float(turn), pin_memory=True)
            assert x.to(DEVICE)[-1].item() == turn
            if turn % 7 == 0:
                del x
                torch.accelerator.empty_host_cache()
        many = [torch.full((100_000,), 1.0, pin_memory=True) for _ in range(300)]
        assert sum(x.to(DEVICE).sum().item() for x in many) == 300 * 100_000

    def test_in_a_forked_child(self, script):
        done = script(
            """
import os, torch
torch.set_num_threads(1)  # OpenMP hangs in a forked child
torch.ones(1, device="tvarant")
x = torch.full((1_000_000,), 3.0).pin_memory()
pid = os.fork()
if pid == 0:
    right = bool((x == 3).all())
    x.fill_(4)
    os._exit(0 if right and x[7] == 4 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert x.to("tvarant").sum().item() == 3_000_000
print("right")
"""
        )
        assert done.returncode == 0 and "right" in done.stdout, done.stderr

    @pytest.mark.parametrize("pinned", [False, True])
    @pytest.mark.parametrize("size", [1, 100, 40_000, 3_000_000])
    def test_upload_is_a_snapshot(self, pinned, size):
        """The host buffer changed after the call never changes the result."""
        host = torch.empty(size, pin_memory=pinned)
        results = []
        torch.eye(512, device="tvarant") @ torch.eye(512, device="tvarant")
        for i in range(5):
            host.fill_(float(i))
            results.append(host.to(DEVICE, non_blocking=True))
        host.fill_(-1)
        for i, result in enumerate(results):
            assert (result == i).all().item()

    def test_source_dropped_after_the_call(self):
        result = make(1_000_000).to(DEVICE, non_blocking=True)
        torch.zeros(1_000_000).fill_(7)
        assert torch.equal(result.cpu(), make(1_000_000))

    @pytest.mark.parametrize("pinned", [False, True])
    def test_download_after_synchronize(self, pinned):
        x = make(300, 300)
        host = torch.empty(300, 300, pin_memory=pinned)
        host.copy_(x.to(DEVICE) * 2, non_blocking=True)
        torch.tvarant.synchronize()
        assert torch.equal(host, x * 2)
        later = (x.to(DEVICE) + 1).to("cpu", non_blocking=True)
        torch.tvarant.synchronize()
        assert torch.equal(later, x + 1)
