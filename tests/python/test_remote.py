"""A daemon over TCP: the same device, who may use it, several at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tcp_daemon import TcpDaemon, certificates, identity

# What a client's script begins with.
HEADER = """
import torch, torch.nn.functional as F
from torch import nn
D = "tvarant"
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[TcpDaemon]:
    running = TcpDaemon("--memory=1GiB")
    yield running
    assert running.process.poll() is None
    assert running.stop() == 0


@pytest.fixture(scope="module")
def second() -> Iterator[TcpDaemon]:
    running = TcpDaemon("--memory=512MiB")
    yield running
    running.stop()


@pytest.fixture
def remote(script, daemon):
    """Runs a script as a client of the daemon; its lines."""

    def run(code: str, **env: str) -> list[str]:
        done = script(HEADER + code, env={**daemon.env, **env})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


class TestSameDevice:
    def test_training_has_the_cpus_numbers(self, remote):
        lines = remote(
            """
def train(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 300), nn.GELU(), nn.LayerNorm(300),
                          nn.Linear(300, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x = torch.randn(100, 64).to(device)
    y = (torch.arange(100) % 10).to(device)
    for _ in range(10):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return [loss.detach().cpu(), *(p.detach().cpu() for p in model.parameters())]
for ours, theirs in zip(train(D), train("cpu")):
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
print(torch.tvarant.get_device_properties(0).mapped)
print(torch.tvarant.fallback_stats())
"""
        )
        assert lines == ["False", "{}"]

    def test_bytes_of_every_size_come_back(self, remote):
        lines = remote(
            """
sizes = [0, 1, 7, 2047, 2048, 65535, 65536, 65537, 131072, (1 << 20) - 1,
         1 << 20, (1 << 20) + 1, (5 << 20) + 3, 40 << 20]
for size in sizes:
    x = torch.randint(0, 256, (size,), dtype=torch.uint8)
    d = x.to(D)
    assert torch.equal(d.cpu(), x), size
    if size > 9:
        part = torch.empty(size - 5, dtype=torch.uint8)
        part.copy_(d[3:-2])
        assert torch.equal(part, x[3:-2]), size
        d[2:-3] = part.to(D)
        assert torch.equal(d.cpu()[2:-3], x[3:-2]), size
y = torch.randn(300, 500)
assert torch.equal(y.to(D).t().cpu(), y.t())
assert torch.equal(y.t().to(D)[::3].cpu(), y.t()[::3])
print("equal")
"""
        )
        assert lines == ["equal"]

    def test_transfers_keep_the_order_of_their_stream(self, remote):
        lines = remote(
            """
host = [torch.full((1 << 19,), float(i)) for i in range(8)]
x = torch.zeros(1 << 19, device=D)
total = torch.zeros(1 << 19, device=D)
for h in host:  # each upload must wait for the addition before it
    x.copy_(h, non_blocking=True)
    total += x
assert total.eq(28).all().item()
other = torch.tvarant.Stream()
for i in range(20):
    x.copy_(host[i % 8])
    event = torch.tvarant.Event()
    event.record()
    with torch.tvarant.stream(other):
        event.wait()
        y = x * 2
        z = torch.ones(1 << 18, device=D) + host[1][: 1 << 18].to(D)
        got = y.cpu()
    assert got.eq(2 * (i % 8)).all(), i
    torch.tvarant.current_stream().wait_stream(other)
print("in order")
"""
        )
        assert lines == ["in order"]

    def test_threads_upload_and_download_at_once(self, remote):
        lines = remote(
            """
import threading
wrong = []
def work(seed):
    g = torch.Generator().manual_seed(seed)
    with torch.tvarant.stream(torch.tvarant.Stream()):
        for i in range(10):
            x = torch.randn(200_000 + seed * 1000 + i, generator=g)
            if not torch.equal((x.to(D) + 0).cpu(), x):
                wrong.append((seed, i))
threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(wrong)
"""
        )
        assert lines == ["[]"]

    def test_a_step_waits_only_for_what_it_reads(self, remote):
        lines = remote(
            """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(D)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 16, device=D), torch.arange(8, device=D) % 4
def step():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
for _ in range(3): step()
torch.tvarant.synchronize()
def trips(f):
    before = torch.tvarant.counters()["round_trips"]
    f()
    return torch.tvarant.counters()["round_trips"] - before
print(trips(step), trips(lambda: step().item()) <= 1)
"""
        )
        assert lines == ["0 True"]

    def test_errors_are_those_of_the_device(self, remote):
        lines = remote(
            """
table = torch.ones(4, 2, device=D)
try:
    F.embedding(torch.tensor([9], device=D), table).cpu()
except IndexError as error:
    print("IndexError")
try:
    torch.empty(1 << 40, dtype=torch.uint8, device=D)
except torch.OutOfMemoryError:
    print("out of memory")
print((table + 1).sum().item())
"""
        )
        assert lines == ["IndexError", "out of memory", "16.0"]


class TestWhoMayUseIt:
    def refusal(self, script, env: dict[str, str]) -> str:
        code = HEADER + (
            "try:\n    torch.ones(1, device=D)\n"
            "except RuntimeError as error:\n    print(str(error).splitlines()[0])\n"
        )
        done = script(code, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test_a_client_without_certificate(self, script, daemon):
        env = {**daemon.env, "TVARANT_TLS_CERT": "", "TVARANT_TLS_KEY": ""}
        text = self.refusal(script, env)
        assert daemon.endpoint in text
        assert "with neither TVARANT_TLS_CERT nor TVARANT_TOKEN" in text

    def test_a_daemon_that_is_not_trusted(self, script, daemon):
        text = self.refusal(script, {**daemon.env, "TVARANT_TLS_CA": ""})
        assert daemon.endpoint in text

    def test_a_file_that_is_not_there(self, script, daemon):
        text = self.refusal(script, {**daemon.env, "TVARANT_TLS_KEY": "/none"})
        assert "TVARANT_TLS_KEY=/none" in text

    def test_nobody_at_the_port(self, script):
        env = {"TVARANT_ENDPOINT": "tcp://127.0.0.1:1", **identity("alice")}
        assert "tcp://127.0.0.1:1" in self.refusal(script, env)

    def test_the_daemon_refuses_to_serve_anybody(self):
        for options in (
            (),
            ("--allow-plain-tcp", "--listen-tcp=0.0.0.0:0"),
            (f"--tls-cert={certificates()}/daemon.pem",),
        ):
            with pytest.raises(AssertionError, match="error: .*(tls|TLS)"):
                PlainDaemon(*options)


class PlainDaemon(TcpDaemon):
    """Without the options of TLS."""

    def __init__(self, *options: str) -> None:
        super(TcpDaemon, self).__init__("--listen-tcp=127.0.0.1:0", *options)


class TestSeveralDevices:
    @pytest.fixture
    def both(self, remote, daemon, second):
        endpoints = f"{daemon.endpoint},{second.endpoint}"

        def run(code: str) -> list[str]:
            return remote(code, TVARANT_ENDPOINT=endpoints)

        return run

    def test_each_endpoint_is_a_device(self, both):
        lines = both(
            """
print(torch.tvarant.device_count())
for i in range(2):
    x = torch.full((3,), float(i), device=f"tvarant:{i}")
    y = x * 2 + 1
    assert x.device.index == y.device.index == i
    print(y.tolist(), torch.tvarant.get_device_properties(i).total_memory >> 20)
with torch.tvarant.device(1):
    z = torch.ones(2, device=D)
    print(z.device, torch.tvarant.current_device())
print(torch.ones(2, device=D).device, torch.tvarant.current_device())
try:
    torch.ones(1, device="tvarant:2")
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""
        )
        assert lines == [
            "2",
            "[1.0, 1.0, 1.0] 1024",
            "[3.0, 3.0, 3.0] 512",
            "tvarant:1 1",
            "tvarant:0 0",
            "invalid device ordinal 2: tvarant has 2 devices",
        ]

    def test_copies_between_devices_are_right_and_counted(self, both):
        lines = both(
            """
a, b = "tvarant:0", "tvarant:1"
x = torch.randn(300, 70)
for view in (lambda t: t, lambda t: t.t(), lambda t: t[::3, 1:]):
    assert torch.equal(view(x.to(a)).to(b).cpu(), view(x))
before = torch.tvarant.counters()["copied_between_devices_bytes"]
y = torch.zeros(300, 70, device=b, dtype=torch.float64)
y.copy_(x.to(a) * 2)
assert torch.equal(y.cpu(), (x * 2).double())
y[:] = torch.arange(70.0, device=a)
assert torch.equal(y.cpu(), torch.arange(70.0).double().expand(300, 70))
print(torch.tvarant.counters()["copied_between_devices_bytes"] - before)
z = torch.randn(5, dtype=torch.complex64)
assert torch.equal(z.to(a).conj().to(b).cpu(), z.conj().resolve_conj())
try:
    x.to(a) + x.to(b)
except RuntimeError as error:
    print("same device" in str(error))
"""
        )
        assert lines == [str(2 * 300 * 70 * 4), "True"]

    def test_a_model_in_two_parts(self, both):
        lines = both(
            """
def train(first, last):
    torch.manual_seed(0)
    head, tail = nn.Linear(8, 16).to(first), nn.Linear(16, 3).to(last)
    optimizer = torch.optim.Adam([*head.parameters(), *tail.parameters()])
    x = torch.randn(20, 8).to(first)
    for _ in range(5):
        optimizer.zero_grad()
        loss = tail(F.relu(head(x)).to(last)).pow(2).mean()
        loss.backward()
        optimizer.step()
    return [p.detach().cpu() for p in [*head.parameters(), *tail.parameters()]]
for ours, theirs in zip(train("tvarant:0", "tvarant:1"), train("cpu", "cpu")):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
g = torch.Generator("tvarant:1").manual_seed(3)
assert torch.rand(4, device="tvarant:1", generator=g).device.index == 1
print(torch.tvarant.memory_reserved(1) > 0, torch.tvarant.fallback_stats())
"""
        )
        assert lines == ["True {}"]

    def test_a_lost_device_leaves_the_other_alone(self, script, daemon):
        doomed = TcpDaemon("--memory=256MiB")
        try:
            done = script(
                HEADER
                + f"""
import os, signal
a = torch.ones(4, device="tvarant:0")
b = torch.ones(4, device="tvarant:1")
os.kill({doomed.process.pid}, signal.SIGKILL)
try:
    while True: b.add_(1).cpu()
except torch.AcceleratorError as error:
    print(str(error).split(":")[0])
print((a + 1).tolist())
del b
""",
                env={
                    **daemon.env,
                    "TVARANT_ENDPOINT": f"{daemon.endpoint},{doomed.endpoint}",
                },
            )
        finally:
            doomed.stop()
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["DEVICE_LOST", "[2.0, 2.0, 2.0, 2.0]"]
