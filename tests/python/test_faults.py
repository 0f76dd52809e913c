"""Bad input and faults: a clear error, the process and the device go on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
import torch
import torch.nn.functional as F

PRIVATE = {"TVARANT_ENDPOINT": ""}


def works() -> bool:
    return (torch.ones(3, device="tvarant") + 1).sum().item() == 6


class TestBadArguments:
    @pytest.mark.parametrize(
        "function",
        [
            lambda d: d + torch.ones(3),
            lambda d: torch.ones(3).add_(d),
            lambda d: torch.cat([d, torch.ones(3)]),
            lambda d: torch.where(d > 0, d, torch.ones(3)),
            lambda d: d @ torch.ones(3),
            lambda d: F.linear(d, torch.ones(2, 3)),
        ],
    )
    def test_mixed_devices(self, function):
        with pytest.raises(RuntimeError, match="same device|cpu"):
            function(torch.ones(3, device="tvarant"))
        assert works()

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x @ x,
            lambda x: x + torch.ones(5, device=x.device),
            lambda x: torch.cat([x, x[:, :1]]),
            lambda x: x.view(7),
            lambda x: x.sum(5),
            lambda x: torch.softmax(x, 3),
            lambda x: F.layer_norm(x, (5,)),
            lambda x: torch.gather(x, 5, torch.zeros(1, 1).long().to(x.device)),
            lambda x: torch.bmm(x, x),
            lambda x: F.cross_entropy(x, torch.zeros(7).long().to(x.device)),
        ],
    )
    def test_wrong_shape_has_pytorchs_message_at_the_call(self, function):
        x = torch.ones(2, 3)
        with pytest.raises((RuntimeError, ValueError, IndexError)) as theirs:
            function(x)
        with pytest.raises(theirs.type) as ours:
            function(x.to("tvarant"))
        assert str(ours.value).split("\n")[0] == str(theirs.value).split("\n")[0]
        assert works()

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: torch.bitwise_not(x),
            lambda x: x.long().mean(),
            lambda x: torch.add(x.long(), 1, alpha=1.5),
            lambda x: (x > 0) - (x > 0),
            lambda x: F.embedding(x, x.view(3, 1)),
            lambda x: x.long().pow(-1),
            lambda x: x.long().mul_(1.5),
        ],
    )
    def test_wrong_dtype_has_pytorchs_type_at_the_call(self, function):
        x = torch.ones(3)
        with pytest.raises((RuntimeError, TypeError)) as theirs:
            function(x)
        with pytest.raises(theirs.type):
            function(x.to("tvarant"))
        assert works()

    def test_overlap_is_refused(self):
        x = torch.ones(4, device="tvarant")
        with pytest.raises(RuntimeError, match="partially overlap|single memory"):
            x[1:].add_(x[:-1])
        with pytest.raises(RuntimeError, match="single memory"):
            x[:1].expand(4).add_(1)
        assert works()

    def test_zero_sizes(self, compare):
        x = torch.ones(0, 3)
        compare(lambda t: t.sum(), x)
        compare(lambda t: t.mean(), x)
        compare(lambda t: t.prod(1), x)
        compare(lambda t: F.linear(t, t.new_ones(4, 3)), x)
        compare(lambda t: torch.cat([t, t.new_ones(2, 3)]), x)
        compare(lambda t: t.clone().t().contiguous(), x)
        compare(lambda t: F.layer_norm(t, (3,)), x)
        compare(lambda t: torch.softmax(t, 0), x)
        for function in (torch.max, torch.argmax, torch.amax):
            with pytest.raises((RuntimeError, IndexError)):
                function(torch.ones(0, device="tvarant"))

    def test_integer_division_by_zero(self):
        x = torch.tensor([4, 2], device="tvarant")
        for function in (torch.floor_divide, torch.remainder, torch.fmod):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                function(x, torch.tensor([1, 0], device="tvarant")).cpu()
        assert works()
        assert (x / 0).isinf().all().item()


class TestDeviceErrors:
    @pytest.mark.parametrize(
        "function,op",
        [
            (lambda i: F.embedding(i, torch.ones(4, 2, device="tvarant")), "index"),
            (
                lambda i: torch.index_select(torch.ones(4, device="tvarant"), 0, i),
                "index_select",
            ),
            (
                lambda i: torch.gather(torch.ones(4, device="tvarant"), 0, i),
                "gather",
            ),
            (
                lambda i: F.nll_loss(torch.ones(2, 4, device="tvarant"), i),
                "nll_loss",
            ),
        ],
    )
    def test_index_out_of_range(self, function, op):
        index = torch.tensor([0, 9], device="tvarant")
        with pytest.raises((RuntimeError, IndexError), match=op):
            function(index).sum().item()
        assert works(), "the error was raised once; the session goes on"

    def test_no_value_is_read_before_the_error(self):
        table = torch.ones(4, 2, device="tvarant")
        bad = F.embedding(torch.tensor([7], device="tvarant"), table)
        with pytest.raises((RuntimeError, IndexError), match="out of"):
            (bad * 2).cpu()

    def test_launch_blocking_raises_at_the_op(self, script):
        done = script(
            """
import torch, torch.nn.functional as F
table = torch.ones(4, 2, device="tvarant")
index = torch.tensor([7], device="tvarant")
try:
    F.embedding(index, table)
except (IndexError, RuntimeError) as error:
    print("at the op:", error)
""",
            env={"TVARANT_LAUNCH_BLOCKING": "1"},
        )
        assert done.stdout.startswith("at the op:"), done.stderr


class TestOutOfMemory:
    def test_error_has_asked_and_free_bytes(self):
        with pytest.raises(torch.OutOfMemoryError, match=r"(?s)1.00 TiB.*free"):
            torch.empty(2**40, dtype=torch.uint8, device="tvarant")
        assert works()

    @pytest.mark.parametrize("size", [2**50, 2**60, 2**62])
    def test_absurd_sizes(self, size):
        with pytest.raises(RuntimeError):
            torch.empty(size, dtype=torch.uint8, device="tvarant")
        assert works()

    def test_fill_the_device_and_recover(self, script):
        done = script(
            """
import torch
kept = []
try:
    while True:
        kept.append(torch.ones(16 << 20, dtype=torch.uint8, device="tvarant"))
except torch.OutOfMemoryError:
    print("full after", len(kept))
assert all(x[0].item() == 1 and x[-1].item() == 1 for x in kept)
del kept[::2]
torch.tvarant.empty_cache()
again = torch.zeros(16 << 20, dtype=torch.uint8, device="tvarant")
print(again.sum().item())
""",
            env={**PRIVATE, "TVARANT_MEMORY": "256MiB"},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[-1] == "0"


class TestLostDaemon:
    def test_killed_during_work_then_new_work(self, script):
        done = script(
            """
import os, signal, threading, time, torch
import torch_tvarant
x = torch.randn(1024, 1024, device="tvarant")
pid = torch_tvarant._C.daemon_pid()
def kill():
    global died
    died = time.monotonic()
    os.kill(pid, signal.SIGKILL)
threading.Timer(0.3, kill).start()
try:
    while True:
        y = x @ x
        torch.tvarant.synchronize()
except RuntimeError as error:
    print("lost:", str(error).splitlines()[0])
    print("after", time.monotonic() - died < 2.0)
for _ in range(2):
    try:
        x.cpu()
        print("read a lost tensor")
    except RuntimeError as error:
        print("old:", str(error).splitlines()[0])
z = torch.ones(4, device="tvarant") + 1
print("new:", z.sum().item())
print("another daemon:", torch_tvarant._C.daemon_pid() not in (0, pid))
del x, y, z
""",
            env=PRIVATE,
        )
        assert done.returncode == 0, done.stderr
        assert "lost:" in done.stdout and "after True" in done.stdout, done.stdout
        assert done.stdout.count("old:") == 2, done.stdout
        assert "new: 8.0" in done.stdout and "another daemon: True" in done.stdout

    def test_exit_with_a_dead_daemon(self, script):
        done = script(
            """
import os, signal, torch, torch_tvarant
x = torch.ones(3, device="tvarant"); views = list(x.unbind())
os.kill(torch_tvarant._C.daemon_pid(), signal.SIGKILL)
""",
            env=PRIVATE,
        )
        assert (done.returncode, done.stderr) == (0, "")


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, timeout: float = 5.0) -> bool:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


START = textwrap.dedent(
    """
    import os, sys, time, threading, torch, torch_tvarant
    def use():
        torch.ones(2, device="tvarant").sum().item()
        print(torch_tvarant._C.daemon_pid(), flush=True)
    """
)


class TestPrivateDaemonEnds:
    """Whatever way the process dies, its private daemon ends with it."""

    def run_until_pid(self, code: str) -> tuple[subprocess.Popen, int]:
        process = subprocess.Popen(
            [sys.executable, "-c", START + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **PRIVATE},
        )
        pid = int(process.stdout.readline())
        assert alive(pid)
        return process, pid

    def test_normal_exit(self):
        process, pid = self.run_until_pid("use()")
        assert process.wait(20) == 0
        assert wait_until(lambda: not alive(pid))

    def test_sigkill(self):
        process, pid = self.run_until_pid("use(); time.sleep(60)")
        process.kill()
        process.wait(20)
        assert wait_until(lambda: not alive(pid))

    def test_end_of_the_starting_thread(self):
        process, pid = self.run_until_pid(
            """
            t = threading.Thread(target=use); t.start(); t.join()
            time.sleep(1)
            print((torch.ones(2, device="tvarant") + 1).sum().item(), flush=True)
            """
        )
        assert process.stdout.readline().strip() == "4.0"
        assert process.wait(20) == 0
        assert wait_until(lambda: not alive(pid))

    def test_forked_child_lives_on(self):
        process, pid = self.run_until_pid(
            """
            use()
            child = os.fork()
            if child == 0:
                time.sleep(30); os._exit(0)
            print(child, flush=True)
            """
        )
        child = int(process.stdout.readline())
        try:
            assert process.wait(20) == 0
            assert wait_until(lambda: not alive(pid))
        finally:
            os.kill(child, signal.SIGKILL)

    def test_ctrl_c(self):
        process, pid = self.run_until_pid(
            """
            use()
            x = torch.ones(512, 512, device="tvarant")
            while True:
                x = (x @ x).clamp_(0, 1); torch.tvarant.synchronize()
            """
        )
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (130, -signal.SIGINT)
        assert wait_until(lambda: not alive(pid))


class TestFindingTheDaemon:
    def message(self, script, **env: str) -> str:
        done = script(
            "import torch\ntry:\n    torch.ones(1, device='tvarant')\n"
            "except RuntimeError as error:\n    print(error)",
            env={**PRIVATE, **env},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def test_backends_that_do_not_exist(self, script):
        assert "gpu" in self.message(script, TVARANT_BACKEND="gpu")

    @pytest.mark.parametrize("backend", ["opencl", "fpga"])
    def test_opencl_devices_that_do_not_exist(self, script, backend):
        text = self.message(
            script, TVARANT_BACKEND=backend, TVARANT_OPENCL_DEVICE="quantum"
        )
        assert '"quantum"; there is: platform 0' in text

    def test_missing_binary(self, script):
        text = self.message(script, TVARANT_DAEMON="/nonexistent/tvarantd")
        assert "/nonexistent/tvarantd" in text

    @pytest.mark.parametrize("endpoint", ["unix:/nonexistent.sock", "ftp:x", "unix:"])
    def test_endpoint_that_does_not_answer(self, script, endpoint):
        text = self.message(script, TVARANT_ENDPOINT=endpoint)
        assert endpoint.split(":", 1)[1] in text and len(text.splitlines()) == 1

    def test_dead_socket(self, script, tmp_path):
        path = tmp_path / "dead.sock"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
        assert str(path) in self.message(script, TVARANT_ENDPOINT=f"unix:{path}")

    def test_foreign_socket(self, script, tmp_path):
        path = tmp_path / "foreign.sock"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            text = self.message(script, TVARANT_ENDPOINT=f"unix:{path}")
        assert str(path) in text and len(text.splitlines()) == 1

    def test_import_torch_never_breaks(self, fresh_script):
        done = fresh_script(
            "import torch\n"
            "print(torch.ones(2).sum().item(), torch.tvarant.is_available())",
            env={"TVARANT_ENDPOINT": "unix:/nonexistent.sock"},
        )
        assert done.returncode == 0 and done.stdout.startswith("2.0"), done.stderr


class TestFork:
    def test_child_gets_an_error_and_the_parent_goes_on(self, script):
        done = script(
            """
import os, torch
x = torch.ones(4, device="tvarant")
x.sum().item()
pid = os.fork()
if pid == 0:
    for use in (lambda: x + 1, lambda: torch.ones(1, device="tvarant"), lambda: x.cpu(),
                torch.tvarant.synchronize):
        try:
            use()
            os._exit(1)
        except RuntimeError as error:
            if "spawn" not in str(error):
                os._exit(2)
    del x
    os._exit(0 if torch.tvarant._is_in_bad_fork() else 3)
print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print((x + 1).sum().item())
"""
        )
        assert done.stdout.split() == ["child", "0", "8.0"], done.stdout + done.stderr

    def test_child_sees_nothing_of_the_parents_memory(self, script):
        done = script(
            """
import os, torch
x = torch.full((1 << 20,), 7.0, device="tvarant")
x.sum().item()
pointer, regions = x.data_ptr(), None
if os.fork() == 0:
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(v, 16) for v in line.split()[0].split("-"))
            if low <= pointer < high and "r" in line.split()[1]:
                os._exit(1)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
        )
        assert done.stdout.strip() == "0", done.stdout + done.stderr

    def test_data_loader_with_cpu_workers(self, script):
        done = script(
            """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.ones(1, device="tvarant").item()
data = TensorDataset(torch.arange(32.0))
total = 0.0
for (batch,) in DataLoader(data, batch_size=8, num_workers=2):
    total += batch.to("tvarant").sum().item()
print(total)
"""
        )
        assert done.stdout.strip() == str(sum(range(32)) * 1.0), done.stderr

    def test_child_that_forks_before_use_may_connect(self, script):
        done = script(
            """
import os, torch
if os.fork() == 0:
    os._exit(0 if (torch.ones(2, device="tvarant") + 1).sum().item() == 4 else 1)
print(os.waitstatus_to_exitcode(os.wait()[1]))
""",
            env=PRIVATE,
        )
        assert done.stdout.strip() == "0", done.stderr


class TestExit:
    """Exits are silent. A few here; the loop of 100 is in test_exit_loop.py."""

    @pytest.mark.parametrize(
        "code",
        [
            "x = torch.ones(4, device='tvarant'); views = list(x.unbind())",
            "p = torch.nn.Linear(4, 4).to('tvarant')\n"
            "p(torch.ones(2, 4, device='tvarant')).sum().backward()",
            "import threading; x = torch.ones(4, device='tvarant')\n"
            "threading.Thread(target=lambda: x + 1).start()",
            "import sys; x = torch.ones(4, device='tvarant')\n"
            "with torch.no_grad(): sys.exit(0)",
            "x = torch.ones(4, device='tvarant')\n"
            "torch.Event(device='tvarant').record()",
        ],
    )
    def test_silent(self, script, code):
        done = script("import torch\n" + code)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
