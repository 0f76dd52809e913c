"""User cases of the daemon as a service: restarts, memory, environment, files."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import Client, Daemon, daemon_binary, wait_until

MIB = 1 << 20
LOST = "AcceleratorError: DEVICE_LOST"


def tell(daemon: Daemon) -> str:
    """What a fresh client computes there."""
    with Client(daemon) as client:
        return client.do("torch.arange(4., device='tvarant').sum().item()")


class TestUc13Restart:
    @pytest.mark.parametrize("end", ["kill", "stop"])
    def test_uc13_twice(self, end):
        """Old tensors raise and are freed in silence; new work goes on."""
        daemon = Daemon()
        try:
            with Client(daemon) as client:
                client.run(
                    """
                    f = torch.compile(lambda a: (a * 2 + 1).relu())
                    old = torch.arange(4.0, device="tvarant")
                    assert f(old).tolist() == [1, 3, 5, 7]
                    """
                )
                for turn in range(2):
                    if end == "kill":
                        daemon.kill()
                    else:
                        daemon.process.terminate()
                        daemon.process.wait(20)
                    start = time.monotonic()
                    assert client.do("old.cpu()").startswith(LOST)
                    assert time.monotonic() - start < 12
                    daemon.start()
                    assert "Error" in client.do("old.sum().item()")
                    client.run(
                        f"""
                        new = torch.arange(4.0, device="tvarant") + {turn}
                        assert new.sum().item() == 6 + 4 * {turn}
                        assert f(new).sum().item() == 16 + 8 * {turn}
                        del old
                        old = new
                        """
                    )
        finally:
            daemon.stop()


class TestUc52OutOfMemory:
    def test_uc52_full_device(self):
        daemon = Daemon("--memory=256MiB")
        try:
            with Client(daemon) as client, Client(daemon) as other:
                for size in ("2**58", "2**61", "2**62"):
                    answer = client.do(f"torch.empty({size}, device='tvarant')")
                    assert "Error" in answer, answer
                client.run(
                    f"""
                    kept = []
                    try:
                        while True:
                            kept.append(torch.ones({8 * MIB // 4}, device="tvarant"))
                    except torch.OutOfMemoryError:
                        pass
                    assert 16 <= len(kept) <= 32, len(kept)
                    """
                )
                # The other has nothing, says so, and works when there is.
                answer = other.do(f"torch.ones({32 * MIB}, device='tvarant').sum()")
                assert "OutOfMemoryError" in answer, answer
                client.run(
                    """
                    assert all(part[-1].item() == 1 for part in kept)
                    del kept
                    torch.tvarant.empty_cache()
                    """
                )
                answer = other.do(
                    f"torch.ones({32 * MIB}, device='tvarant').sum().item()"
                )
                assert answer == str(float(32 * MIB))
            daemon.kill()
            daemon.start()  # at once, on the same socket
            assert tell(daemon) == "6.0"
        finally:
            daemon.stop()

    def test_uc52_in_the_middle_of_a_backward(self):
        daemon = Daemon("--memory=128MiB")
        try:
            with Client(daemon) as client:
                client.run(
                    """
                    w = torch.ones(1024, 1024, device="tvarant", requires_grad=True)
                    def step(layers):
                        y = w
                        for _ in range(layers):
                            y = torch.sin(y)
                        y.sum().backward()
                    try:
                        step(200)
                    except torch.OutOfMemoryError:
                        pass
                    else:
                        raise AssertionError("there was memory enough")
                    w.grad = None
                    step(3)
                    assert abs(w.grad[5, 5].item() - 0.27) < 0.1, w.grad[5, 5]
                    """
                )
        finally:
            daemon.stop()


class TestUc35SharedMemory:
    def test_uc35_no_room_in_dev_shm(self, tmp_path):
        """Nothing lies in /dev/shm: a container's 64 KiB there are enough."""
        code = (
            "import os, torch; assert os.statvfs('/dev/shm').f_blocks * 4096 < 1 << 20;"
            "x = torch.arange(50_000_000, dtype=torch.int32);"
            "y = x.to('tvarant') + 1; assert y[-1].item() == 50_000_000;"
            "assert torch.equal(y.cpu(), x + 1); print('right')"
        )
        for mapped in ("0", "1"):
            done = subprocess.run(
                [
                    *("unshare", "--mount", "sh", "-c"),
                    'mount -t tmpfs -o size=64k none /dev/shm && exec python3 -c "$0"',
                    code,
                ],
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "TVARANT_SIM_MAP": mapped},
            )
            if "unshare failed" in done.stderr or "mount:" in done.stderr:
                pytest.skip("no right to mount here")
            assert done.stdout.strip() == "right", done.stderr

    def test_uc57_memory_that_is_shared_cannot_be_cut(self, script):
        """A client can't take the pages away under the daemon's feet."""
        done = script(
            """
import os, torch
torch.ones(1, device="tvarant")
x = torch.full((1_000_000,), 2.0).pin_memory()
y = x.to("tvarant")
found = 0
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        continue
    if not target.startswith("/memfd:tvarant"):
        continue
    found += 1
    for size in (0, 1 << 30):
        try:
            os.ftruncate(int(name), size)
        except PermissionError:
            continue
        raise AssertionError(f"{target} was cut or grown to {size}")
assert found > 0, "no shared memory was seen"
assert x.to("tvarant").sum().item() == 2_000_000 == y.sum().item()
print("right")
""",
            env={"TVARANT_SIM_MAP": "0"},
        )
        assert done.returncode == 0 and "right" in done.stdout, done.stderr


class TestUc58OtherProtocols:
    def test_uc58_a_foreign_or_silent_peer(self):
        daemon = Daemon()
        try:
            for data in (
                b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"POST /tvarant.v1.DeviceService/OpenSession HTTP/1.1\r\n\r\n{}",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",  # and then nothing
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
            ):
                with socket.socket(socket.AF_UNIX) as foreign:
                    foreign.settimeout(20)
                    foreign.connect(daemon.path)
                    foreign.sendall(data)
                    foreign.shutdown(socket.SHUT_WR)
                    try:
                        while foreign.recv(4096):
                            pass
                    except ConnectionResetError:
                        pass
                assert tell(daemon) == "6.0"
            assert daemon.process.poll() is None
        finally:
            daemon.stop()


class TestUc62Environment:
    def test_uc62_nothing_but_a_socket(self):
        """As under systemd: no HOME, no PATH, few descriptors."""
        daemon = Daemon(env={})
        try:
            assert tell(daemon) == "6.0"
        finally:
            assert daemon.stop() == 0

    def test_uc62_few_descriptors_and_no_locked_memory(self):
        """64 descriptors bound the clients, and say so; nobody else suffers."""
        script = (
            f'ulimit -n 64; ulimit -l 64; exec "{daemon_binary()}" '
            '"--listen=unix:$0" --exit-with-parent=$PPID'
        )
        holder = Daemon()  # for its folder alone
        path = os.path.join(holder.folder.name, "few")
        process = subprocess.Popen(
            ["sh", "-c", script, path], stderr=subprocess.DEVNULL
        )
        held = []
        try:
            assert wait_until(lambda: os.path.exists(path), 20)
            for _ in range(200):
                held.append(socket.socket(socket.AF_UNIX))
                held[-1].settimeout(5)
                try:
                    held[-1].connect(path)
                except (ConnectionError, TimeoutError, BlockingIOError):
                    break
            time.sleep(0.5)
            assert process.poll() is None
            for connection in held:
                connection.close()
            holder.path = path

            def works() -> bool:
                with Client(holder) as client:
                    return client.do("torch.ones(2, device='tvarant').tolist()") == (
                        "[1.0, 1.0]"
                    )

            assert wait_until(works, 20)
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(20)
            holder.stop()


class TestUc64TwoDaemons:
    def test_uc64_one_socket(self):
        daemon = Daemon()
        try:
            second = subprocess.run(
                [daemon_binary(), f"--listen=unix:{daemon.path}"],
                capture_output=True,
                text=True,
                timeout=20,
            )
            assert second.returncode != 0
            assert daemon.path in second.stderr
            assert str(daemon.process.pid) in second.stderr  # who holds it
            assert tell(daemon) == "6.0"
            daemon.kill()  # leaves socket and lock behind
            assert os.path.exists(daemon.path)
            daemon.start()
            assert tell(daemon) == "6.0"
        finally:
            daemon.stop()


OPENCL = {"TVARANT_BACKEND": "opencl"}
WORK = """
import torch
x = torch.arange(24.0, device="tvarant").reshape(4, 6)
assert (x.exp().log() + x.sum(1, keepdim=True)).sum().item() > 0
assert torch.softmax(x, 1).sum().item() - 4 < 1e-5
assert torch.equal((x * 2 - 1).cpu(), torch.arange(24.0).reshape(4, 6) * 2 - 1)
"""


class TestUc33KernelCache:
    def test_uc33_every_file_damaged(self, script, tmp_path):
        cache = tmp_path / "kernels"
        env = {**OPENCL, "TVARANT_KERNEL_CACHE_DIR": str(cache)}
        done = script(WORK, timeout=200, env=env)
        assert done.returncode == 0, done.stderr
        files = sorted(cache.glob("*.tvk"))
        assert files
        for i, file in enumerate(files):
            whole = file.read_bytes()
            if i % 3 == 0:
                file.write_bytes(whole[: len(whole) // 2])
            elif i % 3 == 1:
                file.write_bytes(b"")
            else:
                middle = len(whole) // 2
                flipped = bytes([whole[middle] ^ 1])
                file.write_bytes(whole[:middle] + flipped + whole[middle + 1 :])
        done = script(WORK, timeout=200, env=env)
        assert done.returncode == 0, done.stderr
        assert len(sorted(cache.glob("*.tvk"))) == len(files)
        assert all(file.stat().st_size > 100 for file in files)

    def test_uc33_cold_starts_together(self, fresh_script, tmp_path):
        env = {**OPENCL, "TVARANT_KERNEL_CACHE_DIR": str(tmp_path / "kernels")}
        with ThreadPoolExecutor(4) as pool:
            runs = list(
                pool.map(lambda _: fresh_script(WORK, timeout=300, env=env), range(4))
            )
        for done in runs:
            assert done.returncode == 0, done.stderr
        folder = tmp_path / "kernels"
        # The daemons end after their clients, and each saves what it has.
        assert wait_until(lambda: not list(folder.glob(".new-*")), 20)
        assert list(folder.glob("*.tvk"))
