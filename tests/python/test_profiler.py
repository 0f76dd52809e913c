"""torch.profiler and torch.autograd.profiler on the device."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from support import DEVICE
from torch.profiler import ProfilerActivity, profile, record_function, schedule

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
GEMM = "gemm_bias_act"

WORK = """
import torch
from torch.profiler import ProfilerActivity, profile, schedule
BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
x = torch.randn(256, 256, device="tvarant")
torch.tvarant.synchronize()
"""


def test_device_times_of_operators():
    x = torch.randn(512, 512, device=DEVICE)
    with torch.autograd.profiler.profile(use_device="tvarant") as profile:
        y = (x @ x).relu()
        for _ in range(3):
            y = y @ x
    by_name = {event.key: event for event in profile.key_averages()}
    assert by_name["aten::mm"].count == 4
    assert by_name["aten::mm"].device_time_total > 0
    assert (
        by_name["aten::matmul"].device_time_total
        >= by_name["aten::mm"].device_time_total
    )
    assert "tvarant" in profile.table().lower()


class Trace:
    """What export_chrome_trace() wrote, sorted."""

    def __init__(self, finished: profile, folder: Path) -> None:
        path = folder / "trace.json"
        finished.export_chrome_trace(str(path))
        self.events = json.loads(path.read_text())["traceEvents"]
        self.by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for event in self.events:
            if event["ph"] == "X":
                self.by_kind[event["cat"]].append(event)
        self.names = {
            (event["pid"], event["tid"]): event["args"]["name"]
            for event in self.events
            if event["name"] == "thread_name"
        }
        self.labels = {
            event["pid"]: event["args"]["labels"]
            for event in self.events
            if event["name"] == "process_labels"
        }

    def kernels(self) -> Counter[str]:
        return Counter(event["name"] for event in self.by_kind["kernel"])


def work(x: torch.Tensor) -> None:
    y = (x @ x).relu()
    y.sum().item()
    (y + torch.ones(256).to(DEVICE)).cpu()


@pytest.fixture
def x() -> torch.Tensor:
    made = torch.randn(256, 256, device=DEVICE)
    work(made)
    return made


class TestActivities:
    def test_it_is_supported(self):
        assert ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()

    def test_times_of_operators(self, x):
        with profile(activities=BOTH) as done:
            for _ in range(3):
                work(x)
        by_name = {event.key: event for event in done.key_averages()}
        mm = by_name["aten::mm"]
        assert mm.count == 3
        assert mm.self_device_time_total > 0
        assert by_name["aten::matmul"].self_device_time_total == 0
        assert by_name["aten::matmul"].device_time_total == mm.device_time_total
        assert by_name[GEMM].self_device_time_total == pytest.approx(
            mm.self_device_time_total
        )
        assert by_name["pointwise: relu"].count == 3
        assert by_name["tvarantLaunch"].count >= 12
        table = done.key_averages().table(sort_by="self_device_time_total")
        assert "TVARANT time total" in table.replace("Tvarant", "TVARANT")

    def test_events_on_the_track_of_the_device(self, x, tmp_path):
        with profile(activities=BOTH) as done:
            work(x)
        trace = Trace(done, tmp_path)
        assert trace.kernels() == {
            GEMM: 1,
            "pointwise: relu": 1,
            "reduce": 1,
            "pointwise: add": 1,
        }
        copies = Counter(event["name"] for event in trace.by_kind["gpu_memcpy"])
        assert copies == {"Memcpy DtoH": 2, "Memcpy HtoD": 1}
        for event in trace.by_kind["kernel"]:
            assert trace.labels[event["pid"]] == "tvarant:0"
            assert trace.names[event["pid"], event["tid"]].startswith("stream 0")
            assert event["args"]["stream"] == event["args"]["device"] == 0
        assert {e["args"]["bytes"] for e in trace.by_kind["gpu_memcpy"]} == {
            4,
            1024,
            256 * 256 * 4,
        }

    def test_events_belong_to_operators(self, x, tmp_path):
        with profile(activities=BOTH) as done:
            work(x)
        trace = Trace(done, tmp_path)
        ops = {e["args"]["External id"]: e for e in trace.by_kind["cpu_op"]}
        calls = {
            e["args"]["correlation"]: e for e in trace.by_kind["privateuse1_runtime"]
        }
        names = {GEMM: "aten::mm", "pointwise: relu": "aten::relu"}
        for event in trace.by_kind["kernel"]:
            op = ops[event["args"]["External id"]]
            assert op["name"] == names.get(event["name"], op["name"])
            call = calls[event["args"]["correlation"]]
            assert call["args"]["External id"] == event["args"]["External id"]
            assert (call["pid"], call["tid"]) == (op["pid"], op["tid"])
            # The call lies within its operator, as far as two clocks of the host
            # agree; the device's work begins later.
            assert op["ts"] <= call["ts"] + 50
            assert call["ts"] + call["dur"] <= op["ts"] + op["dur"] + 50
            assert call["ts"] <= event["ts"] + 1
        arrows = Counter((e["ph"], e["id"]) for e in trace.events if e["ph"] in "sf")
        for correlation in calls:
            assert arrows["s", correlation] == arrows["f", correlation] == 1

    def test_kernels_of_a_stream_follow_one_another(self, x, tmp_path):
        with profile(activities=BOTH) as done:
            for _ in range(20):
                x.relu()
        trace = Trace(done, tmp_path)
        kernels = sorted(trace.by_kind["kernel"], key=lambda event: event["ts"])
        assert len(kernels) == 20
        for first, second in itertools.pairwise(kernels):
            assert first["ts"] + first["dur"] <= second["ts"] + 0.002

    def test_other_streams(self, x, tmp_path):
        stream = torch.tvarant.Stream()
        with profile(activities=BOTH) as done, stream:
            x.relu()
        trace = Trace(done, tmp_path)
        (kernel,) = trace.by_kind["kernel"]
        assert kernel["tid"] == stream.stream_id != 0
        assert trace.names[0, kernel["tid"]].startswith(f"stream {stream.stream_id}")

    def test_device_alone(self, x):
        with profile(activities=[ProfilerActivity.PrivateUse1]) as done:
            work(x)
        assert GEMM in {event.key for event in done.key_averages()}

    def test_host_alone(self, x):
        with profile(activities=[ProfilerActivity.CPU]) as done:
            work(x)
        names = {event.key for event in done.key_averages()}
        assert "aten::mm" in names
        assert GEMM not in names

    def test_ranges_of_the_user(self, x, tmp_path):
        with profile(activities=BOTH) as done:
            with record_function("two products"):
                x @ x
                x @ x
            x.relu()
        trace = Trace(done, tmp_path)
        (shown,) = trace.by_kind["gpu_user_annotation"]
        assert shown["name"] == "two products"
        gemms = [e for e in trace.by_kind["kernel"] if e["name"] == GEMM]
        assert shown["ts"] <= min(e["ts"] for e in gemms)
        assert shown["dur"] >= sum(e["dur"] for e in gemms)
        by_name = {
            (event.key, event.device_type): event for event in done.key_averages()
        }
        host = by_name["two products", torch.autograd.DeviceType.CPU]
        assert host.device_time_total >= sum(e["dur"] for e in gemms) * 0.99

    def test_backward_belongs_to_its_operators(self, x):
        w = torch.randn(256, 256, device=DEVICE, requires_grad=True)
        with profile(activities=BOTH) as done:
            (x @ w).relu().sum().backward()
        by_name = {event.key: event for event in done.key_averages()}
        assert by_name["MmBackward0"].device_time_total > 0
        assert by_name["ReluBackward0"].device_time_total > 0

    def test_transfers_and_copies(self, tmp_path):
        x = torch.zeros(1 << 20, device=DEVICE)
        host = torch.ones(1 << 20)
        with profile(activities=BOTH) as done:
            x.copy_(host)
            x.add_(1).copy_(host)
            y = x.clone()
            y.cpu()
        trace = Trace(done, tmp_path)
        copies = Counter(event["name"] for event in trace.by_kind["gpu_memcpy"])
        assert copies["Memcpy HtoD"] == 2
        assert copies["Memcpy DtoH"] == 1
        by_name = {event.key: event for event in done.key_averages()}
        assert by_name["aten::copy_"].device_time_total > 0


class TestOptions:
    def test_everything_at_once(self, script):
        done = script(
            WORK
            + """
import warnings
warnings.simplefilter("error")
with profile(activities=BOTH, record_shapes=True, with_stack=True, with_flops=True,
             profile_memory=True, with_modules=True) as done:
    layer = torch.nn.Linear(256, 256).to("tvarant")
    layer(x).relu().sum().backward()
by_name = {e.key: e for e in done.key_averages(group_by_input_shape=True)}
assert by_name["aten::addmm"].input_shapes[1] == [256, 256]
assert by_name["aten::addmm"].flops > 0
assert by_name["aten::addmm"].device_memory_usage == 256 * 256 * 4
done.key_averages(group_by_stack_n=5).table()
done.export_chrome_trace("/dev/null")
"""
        )
        assert (done.returncode, done.stdout) == (0, "")
        # PyTorch itself says when a profile starts and stops.
        rest = [line for line in done.stderr.splitlines() if "USDT:" not in line]
        assert rest == []

    @pytest.mark.filterwarnings("ignore:.*clears events at the end of each cycle")
    def test_schedule(self, x):
        seen = []
        with profile(
            activities=BOTH,
            schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
            on_trace_ready=lambda p: seen.append(
                {event.key: event.count for event in p.key_averages()}
            ),
        ) as running:
            for _ in range(8):
                x @ x
                running.step()
        assert [names[GEMM] for names in seen] == [2, 2]
        assert [names["aten::mm"] for names in seen] == [2, 2]

    def test_one_profile_after_another(self, x):
        for count in (1, 3, 2):
            with profile(activities=BOTH) as done:
                for _ in range(count):
                    x @ x
            (gemm,) = (e for e in done.key_averages() if e.key == GEMM)
            assert gemm.count == count

    def test_memory_of_the_device(self, x):
        with profile(activities=BOTH, profile_memory=True) as done:
            y = torch.empty(1 << 20, device=DEVICE)
        del y
        by_name = {event.key: event for event in done.key_averages()}
        assert by_name["aten::empty"].device_memory_usage == 4 << 20

    def test_profile_that_starts_the_device(self, script):
        done = script(
            """
import torch
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as done:
    x = torch.ones(300, 300, device="tvarant")
    y = x @ x
by_name = {e.key: e for e in done.key_averages()}
print(by_name["gemm_bias_act"].count, by_name["aten::mm"].device_time_total > 0)
"""
        )
        assert (done.returncode, done.stdout) == (0, "1 True\n")


class TestMany:
    def test_a_thousand_launches(self, x):
        y = torch.zeros(64, device=DEVICE)
        with profile(activities=BOTH) as done:
            for _ in range(1000):
                y += 1
        by_name = {event.key: event for event in done.key_averages()}
        assert by_name["pointwise: add"].count == 1000
        assert by_name["aten::add_"].count == 1000
        assert by_name["aten::add_"].self_device_time_total > 0
        assert y.sum().item() == 64000

    def test_more_than_the_client_remembers(self):
        before = torch.tvarant.Event(enable_timing=True)
        after = torch.tvarant.Event(enable_timing=True)
        y = torch.zeros(1, device=DEVICE)
        with profile(activities=[ProfilerActivity.PrivateUse1]) as done:
            before.record()
            for _ in range(40_000):
                y += 1
            after.record()
        # Nor does the profile make others' marks forgotten.
        assert before.elapsed_time(after) > 0
        by_name = {event.key: event for event in done.key_averages()}
        assert by_name["pointwise: add"].count == 40_000
        assert y.item() == 40_000

    def test_two_threads_launch(self, x):
        def run() -> None:
            for _ in range(200):
                x.relu()

        thread = threading.Thread(target=run)
        with profile(activities=BOTH) as done:
            thread.start()
            run()
            thread.join()
        by_name = {event.key: event for event in done.key_averages()}
        # The other thread's operators are not PyTorch's to see, its launches
        # are the device's.
        assert by_name["pointwise: relu"].count == 400
        assert by_name["aten::relu"].count == 200

    def test_profile_in_a_second_thread(self, x):
        found = {}

        def run() -> None:
            with profile(activities=BOTH) as done:
                x @ x
            found.update({event.key: event for event in done.key_averages()})

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert found["aten::mm"].device_time_total > 0
        assert found[GEMM].count == 1


class TestFaults:
    def test_daemon_died_before(self, script):
        done = script(
            WORK
            + """
import os, signal, time, torch_tvarant
os.kill(torch_tvarant._C.daemon_pid(), signal.SIGKILL)
time.sleep(0.2)
try:
    with profile(activities=BOTH):
        x.relu()
    print("no error")
except RuntimeError as error:
    print("error")
with profile(activities=BOTH) as done:
    y = torch.ones(8, 8, device="tvarant") @ torch.ones(8, 8, device="tvarant")
print({e.key: e.count for e in done.key_averages()}["gemm_bias_act"], y.sum().item())
""",
            env={"TVARANT_ENDPOINT": ""},
        )
        assert (done.returncode, done.stdout) == (0, "error\n1 512.0\n")

    def test_daemon_dies_during(self, script):
        done = script(
            WORK
            + """
import os, signal, torch_tvarant
try:
    with profile(activities=BOTH) as done:
        for _ in range(100):
            x = x @ x
        os.kill(torch_tvarant._C.daemon_pid(), signal.SIGKILL)
        for _ in range(100):
            x = x @ x
        torch.tvarant.synchronize()
    print("no error")
except RuntimeError as error:
    print("error")
with profile(activities=BOTH) as done:
    y = torch.ones(8, 8, device="tvarant") @ torch.ones(8, 8, device="tvarant")
print({e.key: e.count for e in done.key_averages()}["gemm_bias_act"], y.sum().item())
""",
            env={"TVARANT_ENDPOINT": ""},
        )
        assert (done.returncode, done.stdout) == (0, "error\n1 512.0\n")

    def test_failure_of_a_kernel_is_raised_as_ever(self, x):
        index = torch.tensor([300], device=DEVICE)
        with profile(activities=BOTH):
            x.gather(0, index[None])
            with pytest.raises(RuntimeError, match="out of bounds"):
                torch.tvarant.synchronize()
        assert x.relu().sum().item() > 0
