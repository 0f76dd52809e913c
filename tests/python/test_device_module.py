"""torch.tvarant and torch.accelerator: control and properties of the device."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from support import DEVICE

import torch_tvarant
from torch_tvarant._utils import _get_device_index

BACKEND = os.environ.get("TVARANT_BACKEND", "sim")
MAPPED = BACKEND == "sim" and os.environ.get("TVARANT_SIM_MAP") != "0"


class TestModule:
    def test_everything_named_exists(self):
        missing = [n for n in torch.tvarant.__all__ if not hasattr(torch.tvarant, n)]
        assert not missing

    @pytest.mark.parametrize(
        "name",
        # What torch.cuda has that a program for one device reaches for.
        "Event Stream StreamContext current_device current_stream default_stream "
        "device device_count device_of empty_cache get_device_capability "
        "get_device_name get_device_properties get_rng_state get_rng_state_all init "
        "initial_seed ipc_collect is_available is_bf16_supported is_initialized "
        "manual_seed manual_seed_all max_memory_allocated max_memory_reserved "
        "mem_get_info memory_allocated memory_reserved memory_snapshot memory_stats "
        "memory_stats_as_nested_dict memory_summary reset_accumulated_memory_stats "
        "reset_peak_memory_stats seed seed_all set_device set_rng_state "
        "set_rng_state_all set_stream stream synchronize".split(),
    )
    def test_has_cudas_name(self, name):
        assert hasattr(torch.cuda, name) and callable(getattr(torch.tvarant, name))

    def test_is_the_registered_module(self):
        assert torch.get_device_module("tvarant") is torch.tvarant
        assert torch.get_device_module(DEVICE) is torch.tvarant
        assert torch._C._get_privateuse1_backend_name() == "tvarant"

    def test_is_known_to_the_generated_methods(self):
        assert torch.ones(1, device="tvarant").untyped_storage().is_tvarant
        assert torch.ones(1).untyped_storage().tvarant().is_tvarant
        packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2)])
        assert packed.tvarant().is_tvarant


class TestDevice:
    @pytest.mark.parametrize(
        "value,index",
        [
            (None, 0),
            (0, 0),
            ("tvarant", 0),
            ("tvarant:0", 0),
            (torch.device("tvarant"), 0),
            (torch.device("tvarant", 0), 0),
        ],
    )
    def test_index_of(self, value, index):
        assert _get_device_index(value) == index

    def test_index_of_others(self):
        assert _get_device_index("cpu", allow_cpu=True) == -1
        with pytest.raises(ValueError, match="cpu"):
            _get_device_index("cpu")
        for wrong in (True, 1.5, []):
            with pytest.raises(TypeError):
                _get_device_index(wrong)

    def test_contexts_restore_the_device(self):
        with torch.tvarant.device(0):
            assert torch.tvarant.current_device() == 0
            with torch.tvarant.device_of(torch.ones(1)):
                assert torch.tvarant.current_device() == 0
            with torch.tvarant.device_of(torch.ones(1, device="tvarant")):
                assert torch.tvarant.current_device() == 0
        with pytest.raises(ZeroDivisionError), torch.tvarant.device("tvarant:0"):
            _ = 1 / 0
        assert torch.tvarant.current_device() == 0

    def test_context_of_a_missing_device(self):
        with pytest.raises(RuntimeError), torch.tvarant.device(7):
            pass
        assert torch.tvarant.current_device() == 0

    def test_negative_index_does_nothing(self):
        torch.tvarant.set_device(-1)
        assert torch.tvarant.current_device() == 0
        assert torch.tvarant._exchange_device(-1) == -1
        assert torch.tvarant._exchange_device(0) == 0
        assert torch.tvarant._maybe_exchange_device(0) == 0

    def test_default_device_of_factories(self):
        with torch.device("tvarant"):
            assert torch.ones(2).is_tvarant
            assert torch.nn.Linear(2, 2).weight.is_tvarant
        torch.set_default_device("tvarant")
        try:
            assert torch.arange(3).is_tvarant
        finally:
            torch.set_default_device(None)
        assert torch.arange(3).device.type == "cpu"

    def test_each_thread_has_its_own_current_device(self):
        seen = []
        thread = threading.Thread(
            target=lambda: seen.append(torch.tvarant.current_device())
        )
        thread.start()
        thread.join()
        assert seen == [0]

    def test_initialised_by_the_first_use_only(self, script):
        done = script(
            """
import torch
before = [torch.tvarant.is_initialized(), torch.tvarant.is_available(),
          torch.tvarant.device_count(), torch.tvarant.current_device(),
          torch.tvarant.memory_allocated(), torch.tvarant.fallback_stats()]
torch.manual_seed(3)
state = torch.tvarant.get_rng_state()
print(before, torch.tvarant.is_initialized(), torch.tvarant.initial_seed())
torch.tvarant.init()
print(torch.tvarant.is_initialized())
"""
        )
        assert done.stdout.splitlines() == [
            "[False, True, 1, 0, 0, {}] False 3",
            "True",
        ], done.stderr

    def test_synchronize_waits_for_all(self):
        x = torch.ones(256, 256, device="tvarant")
        for _ in range(20):
            x = x @ x * (1 / 256)
        torch.tvarant.synchronize()
        assert torch.tvarant.current_stream().query()


class TestProperties:
    def test_fields(self):
        properties = torch.tvarant.get_device_properties()
        assert properties.runtime == torch.tvarant.backend() == BACKEND
        assert properties.name and properties.name == torch.tvarant.get_device_name()
        assert properties.daemon_version == torch_tvarant.__version__
        if BACKEND == "sim":
            assert properties.instruction_set in ("baseline", "avx2", "avx512")
        else:
            assert properties.instruction_set.startswith("OpenCL ")
        assert properties.total_memory >= properties.max_segment > 1 << 20
        assert properties.multi_processor_count == properties.compute_units >= 1
        assert properties.simt_width >= 1
        assert properties.endpoint == torch_tvarant._C.endpoint()
        assert properties.endpoint.startswith("unix:")
        assert properties.mapped is MAPPED
        assert torch.tvarant.get_device_capability() == (
            properties.compute_units,
            properties.simt_width,
        )

    def test_of_each_form_of_device(self):
        for device in (None, 0, "tvarant:0", DEVICE):
            assert (
                torch.tvarant.get_device_name(device) == torch.tvarant.get_device_name()
            )
        with pytest.raises((RuntimeError, ValueError)):
            torch.tvarant.get_device_properties(3)

    def test_small_answers(self):
        assert torch.tvarant.get_arch_list() == ["sim", "opencl"]
        assert torch.tvarant.can_device_access_peer(0, 0)
        assert torch.tvarant.ipc_collect() is None
        assert torch.tvarant._is_compiled() is True
        assert torch.tvarant._is_in_bad_fork() is False


class TestAccelerator:
    def test_is_the_current_one(self):
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("tvarant")
        assert torch.accelerator.device_count() == 1
        assert torch.accelerator.current_device_index() == 0

    def test_control(self):
        torch.accelerator.set_device_index(0)
        torch.accelerator.set_device_index("tvarant:0")
        with torch.accelerator.device_index(0):
            assert torch.accelerator.current_device_index() == 0
        torch.accelerator.synchronize()
        with pytest.raises(RuntimeError):
            torch.accelerator.set_device_index(4)

    def test_streams(self):
        stream = torch.Stream("tvarant")
        before = torch.accelerator.current_stream()
        torch.accelerator.set_stream(stream)
        try:
            assert torch.accelerator.current_stream() == stream
            assert torch.tvarant.current_stream() == stream
        finally:
            torch.accelerator.set_stream(before)
        with stream:
            assert torch.tvarant.current_stream() == stream
        assert torch.tvarant.current_stream() == before

    def test_memory(self):
        torch.accelerator.reset_peak_memory_stats()
        base = torch.accelerator.memory_allocated()
        x = torch.ones(1 << 16, device="tvarant")
        assert torch.accelerator.memory_allocated() - base >= x.nbytes
        assert torch.accelerator.max_memory_allocated() >= base + x.nbytes
        assert (
            torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
        )
        assert torch.accelerator.max_memory_reserved() >= x.nbytes
        stats = torch.accelerator.memory_stats()
        assert stats["allocated_bytes.all.current"] >= x.nbytes
        torch.accelerator.reset_accumulated_memory_stats()
        free, total = torch.accelerator.get_memory_info()
        assert 0 < free <= total
        del x
        torch.accelerator.empty_cache()

    def test_is_no_integrated_stand_in_for_cuda(self):
        assert not torch.cuda.is_available()
        assert (
            torch.utils.backend_registration._get_custom_mod_func("device_count")() == 1
        )


class TestCounters:
    def test_keys(self):
        assert set(torch.tvarant.counters()) == {
            "launches",
            "records",
            "batches",
            "round_trips",
            "uploaded_bytes",
            "downloaded_bytes",
            "copied_between_devices_bytes",
        }

    def test_a_launch_and_a_read_are_counted(self):
        x = torch.ones(4, device="tvarant")
        torch.tvarant.synchronize()
        before = torch.tvarant.counters()
        y = x + 1
        y.tolist()
        after = torch.tvarant.counters()
        assert after["launches"] == before["launches"] + 1
        assert after["records"] > before["records"]
        assert after["batches"] > before["batches"]

    def test_fallbacks_are_counted_by_op(self):
        torch.tvarant.reset_fallback_stats()
        x = torch.eye(3, device="tvarant") * 2
        torch.linalg.det(x)
        stats = torch.tvarant.fallback_stats()
        assert stats and all(isinstance(n, int) and n > 0 for n in stats.values())
        assert any("linalg" in name or "lu" in name for name in stats), stats
        torch.tvarant.reset_fallback_stats()
        assert torch.tvarant.fallback_stats() == {}

    def test_fallbacks_warn_once_and_can_be_forbidden(self, script):
        code = """
import warnings, torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        try:
            torch.linalg.eigvalsh(torch.eye(3, device="tvarant"))
        except Exception as error:
            print(type(error).__name__, error)
print(len([w for w in caught if "eigh" in str(w.message)]))
"""
        done = script(code)
        assert done.stdout.strip() == "1", done.stdout + done.stderr
        done = script(code, env={"TVARANT_FALLBACK": "error"})
        lines = done.stdout.strip().splitlines()
        assert len(lines) == 4 and "eigh" in lines[0], done.stdout + done.stderr
