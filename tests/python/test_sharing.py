"""Several processes on one daemon: right results, isolation, faults of a neighbour."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch
from support import Client, Daemon, wait_until

MIB = 1 << 20

MATMULS = """
import sys, torch
seed = int(sys.argv[1])
torch.manual_seed(seed)
a = torch.randint(-3, 4, (96, 96)).float()
d, total = a.to("tvarant"), 0.0
for i in range(60):
    y = (d @ d + seed).relu()
    z = torch.full_like(y, float(seed))
    total += (y * z).sum().item()
e, expected = a, 0.0
y = (e @ e + seed).relu()
for i in range(60):
    expected += (y * seed).sum().item()
print(total == expected, total)
"""


class TestTogether:
    def test_results_of_many_processes(self, daemon):
        def run(seed: int) -> str:
            return subprocess.run(
                [sys.executable, "-c", MATMULS, str(seed)],
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, **daemon.env},
                check=True,
            ).stdout

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            results = list(pool.map(run, range(1, 7)))
        assert all(result.startswith("True") for result in results), results
        assert len(set(results)) == 6

    def test_both_see_one_device(self, daemon):
        with Client(daemon) as a, Client(daemon) as b:
            assert a.do("torch.tvarant.get_device_name()") == b.do(
                "torch.tvarant.get_device_name()"
            )
            before = a.free()
            b.do("x = torch.zeros(64 << 20, dtype=torch.uint8, device='tvarant')")
            assert a.free() <= before - 64 * MIB
            assert int(a.do("torch.tvarant.memory_allocated()")) == 0
            b.do("del x")
            b.do("torch.tvarant.synchronize()")
            b.do("torch.tvarant.empty_cache()")
            assert a.free() == before

    def test_an_error_of_one_is_not_the_others(self, daemon):
        with Client(daemon) as a, Client(daemon) as b:
            a.do("t = torch.ones(3, 2, device='tvarant')")
            b.do("x = torch.ones(3, device='tvarant')")
            bad = "t[torch.tensor([7], device='tvarant')].cpu()"
            assert "Error" in a.do(bad)
            assert b.do("(x + 1).tolist()") == "[2.0, 2.0, 2.0]"
            assert a.do("(t + 1).sum().item()") == "12.0"

    def test_same_random_numbers_in_each(self, daemon):
        line = "(torch.manual_seed(4), torch.randn(3, device='tvarant').tolist())[1]"
        with Client(daemon) as a, Client(daemon, TVARANT_SIM_MAP="0") as b:
            assert a.do(line) == b.do(line)

    def test_full_device_is_an_error_for_the_one_who_asks(self):
        daemon = Daemon("--memory=256MiB")
        try:
            with Client(daemon) as a, Client(daemon) as b:
                b.do("x = torch.ones(4, device='tvarant')")
                a.do(
                    "big = torch.zeros(160 << 20, dtype=torch.uint8, device='tvarant')"
                )
                ask = "y = torch.ones(160 << 20, dtype=torch.uint8, device='tvarant')"
                assert "OutOfMemoryError" in b.do(ask)
                assert b.do("(x + 1).sum().item()") == "8.0"
                a.do("del big")
                a.do("torch.tvarant.synchronize()")
                a.do("torch.tvarant.empty_cache()")
                assert b.do(ask) == "ok"
                assert b.do("y[-1].item()") == "1"
        finally:
            assert daemon.stop() == 0


class TestIsolation:
    def test_new_memory_holds_nothing_of_the_last_owner(self, daemon):
        with Client(daemon) as a:
            a.do("x = torch.full((16 << 20,), 77, dtype=torch.uint8, device='tvarant')")
            a.do("x.sum().item()")
        with Client(daemon) as b:
            b.do("y = torch.empty(16 << 20, dtype=torch.uint8, device='tvarant')")
            assert b.do("(y == 77).sum().item()") == "0"

    def test_former_owner_sees_nothing_of_the_next(self, daemon):
        """Descriptors that it kept of its memory never show another's bytes."""
        with Client(daemon) as a, Client(daemon) as b:
            a.run(
                """
                import mmap, os
                x = torch.full((8 << 20,), 7, dtype=torch.uint8, device='tvarant')
                x.sum().item()
                kept = []
                for folder in ("/proc/self/map_files/", "/proc/self/fd/"):
                    for name in os.listdir(folder):
                        try:
                            kept.append(os.open(folder + name, os.O_RDONLY))
                        except OSError:
                            pass
                def found(byte):
                    count = 0
                    for fd in kept:
                        try:
                            size = os.fstat(fd).st_size
                            if 0 < size <= 1 << 30:
                                view = mmap.mmap(fd, size, prot=mmap.PROT_READ)
                                count += view.find(bytes([byte]) * 4096) >= 0
                        except (OSError, ValueError):
                            pass
                    return count
                """
            )
            mapped = a.do("torch.tvarant.get_device_properties().mapped") == "True"
            # The search itself works: it finds the client's own bytes.
            assert (int(a.do("found(7)")) > 0) is mapped
            a.run(
                """
                del x
                torch.tvarant.synchronize()
                torch.tvarant.empty_cache()
                torch.tvarant.mem_get_info()
                """
            )
            b.do("y = torch.full((8 << 20,), 199, dtype=torch.uint8, device='tvarant')")
            assert b.do("y.sum().item()") == str(199 * (8 << 20))
            assert a.do("found(199)") == "0"

    def test_forked_child_sees_nothing_of_the_next_owner(self, daemon, script):
        done = script(
            """
import os, subprocess, sys, torch
x = torch.full((8 << 20,), 7, dtype=torch.uint8, device="tvarant")
x.sum().item()
ask, answer = os.pipe(), os.pipe()
if os.fork() == 0:
    os.read(ask[0], 1)
    found = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            field = line.split()
            low, high = (int(v, 16) for v in field[0].split("-"))
            if "s" not in field[1] or "r" not in field[1]:
                continue
            try:
                memory.seek(low)
                found += bytes([199]) * 4096 in memory.read(high - low)
            except (OSError, ValueError):
                pass
    os.write(answer[1], str(found).encode())
    os._exit(0)
del x
torch.tvarant.synchronize()
torch.tvarant.empty_cache()
subprocess.run([sys.executable, "-c", '''
import torch
y = torch.full((8 << 20,), 199, dtype=torch.uint8, device="tvarant")
y.sum().item()
import os
os.write(%d, b"x")
print("child of the parent says", os.read(%d, 1).decode())
''' % (ask[1], answer[0])], pass_fds=[ask[1], answer[0]])
os.wait()
""",
            env=daemon.env,
        )
        assert "says 0" in done.stdout, done.stdout + done.stderr

    def test_sockets_folder_has_no_data(self, daemon):
        with Client(daemon) as a:
            a.do("x = torch.ones(4, device='tvarant')")
            assert set(os.listdir(daemon.folder.name)) <= {"s", "s.lock"}
            shared = [n for n in os.listdir("/dev/shm") if "tvarant" in n]
            assert shared == []


class TestKilledClient:
    def test_uc09_memory_is_back_and_the_others_go_on(self, daemon):
        with Client(daemon) as watcher:
            watcher.do("w = torch.eye(64, device='tvarant')")
            # What it does later, so that it needs no more memory then.
            assert watcher.do("(w @ w).sum().item()") == "64.0"
            before = watcher.free()
            for _ in range(5):
                with Client(daemon) as victim:
                    victim.do(
                        "xs = [torch.ones(2 << 20, device='tvarant') for _ in '1' * 32]"
                    )
                    victim.do("a = torch.eye(1024, device='tvarant')")
                    assert watcher.free() <= before - 256 * MIB
                    victim.send("exec('while True: (a @ a).sum().item()')")
                    time.sleep(0.1)
                    victim.process.kill()
                    # More may be free: what the tests before this one held.
                    assert wait_until(lambda: watcher.free() >= before, 2)
                assert watcher.do("(w @ w).sum().item()") == "64.0"

    def test_killed_during_a_long_kernel(self, daemon):
        """The kernel, seconds of work, is given up."""
        with Client(daemon) as watcher:
            before = watcher.free()
            with Client(daemon) as victim:
                victim.do("a = torch.ones(7000, 7000, device='tvarant').double()")
                victim.send("a @ a")
                assert wait_until(lambda: watcher.free() <= before - 700 * MIB)
                time.sleep(0.1)
                victim.process.kill()
                assert wait_until(lambda: watcher.free() >= before, 2)

    def test_killed_during_an_upload(self, daemon):
        with Client(daemon) as watcher:
            before = watcher.free()
            with Client(daemon) as victim:
                victim.do("h = torch.ones(32 << 20)")
                victim.send("exec('while True: h.to(\"tvarant\")')")
                time.sleep(0.5)
                victim.process.kill()
                assert wait_until(lambda: watcher.free() >= before, 3)


class TestGarbage:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\0" * 64,
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 500,
            b"TVSD" + b"\xff" * 60,
            b"TVSD\x01\x00\x01\x00" + b"\0" * 56,
            b"TV",
            bytes(range(256)) * 4096,
        ],
        ids=[
            "nothing",
            "zeros",
            "http",
            "broken http2",
            "broken side message",
            "unknown token",
            "cut off",
            "a megabyte",
        ],
    )
    def test_bytes_on_the_socket_while_a_client_works(self, daemon, data):
        with Client(daemon) as client:
            client.do("x = torch.ones(64, 64, device='tvarant')")
            client.send("exec('for _ in range(200): x = (x @ x).clamp(0, 1)')")
            for _ in range(3):
                with socket.socket(socket.AF_UNIX) as foreign:
                    foreign.settimeout(30)
                    foreign.connect(daemon.path)
                    try:
                        foreign.sendall(data)
                        foreign.shutdown(socket.SHUT_WR)
                        while foreign.recv(4096):
                            pass
                    except (BrokenPipeError, ConnectionResetError):
                        pass
            assert client.receive() == "None"
            assert client.do("x.sum().item()") == "4096.0"
        assert daemon.process.poll() is None

    def test_silent_connections_do_not_lock_others_out(self, daemon):
        idle = []
        try:
            for _ in range(40):
                idle.append(socket.socket(socket.AF_UNIX))
                idle[-1].connect(daemon.path)
            with Client(daemon) as client:
                assert (
                    client.do("torch.ones(2, device='tvarant').tolist()")
                    == "[1.0, 1.0]"
                )
        finally:
            for connection in idle:
                connection.close()


class TestDaemonEnds:
    def test_sigterm_is_clean_and_clients_get_a_sentence(self):
        daemon = Daemon()
        with Client(daemon) as client:
            client.do("x = torch.ones(3, device='tvarant')")
            assert daemon.stop() == 0
            start = time.monotonic()
            assert client.do("x.cpu()").startswith("AcceleratorError: DEVICE_LOST")
            assert client.do("torch.ones(2, device='tvarant').cpu()").startswith(
                "AcceleratorError: no tvarantd"
            )
            assert time.monotonic() - start < 12

    def test_second_daemon_on_one_socket_is_refused(self, daemon):
        from support import daemon_binary

        done = subprocess.run(
            [daemon_binary(), f"--listen=unix:{daemon.path}"],
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert done.returncode != 0 and daemon.path in done.stderr
        with Client(daemon) as client:
            assert client.do("torch.ones(1, device='tvarant').item()") == "1.0"


def test_this_process_beside_the_shared_daemon(daemon):
    """Threads of this process, on its own private daemon, are not disturbed."""
    results = []

    def work():
        x = torch.ones(8, device="tvarant")
        for _ in range(50):
            x = x + 1
        results.append(x.sum().item())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    with Client(daemon) as client:
        assert client.do("torch.ones(2, device='tvarant').sum().item()") == "2.0"
    for thread in threads:
        thread.join()
    assert results == [8 * 51.0] * 3
