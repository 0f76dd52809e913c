"""A daemon that is killed in the middle of a training loop, and comes back.

TVARANT_LOSS_ROUNDS sets how many deaths one client lives through (default: one
in each phase).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support import Daemon
from tcp_daemon import TcpDaemon

PHASES = [
    "allocate",
    "upload",
    "forward",
    "backward",
    "optimizer",
    "read",
    "synchronize",
    "download",
    "idle",
]
ROUNDS = int(os.environ.get("TVARANT_LOSS_ROUNDS", len(PHASES)))

CLIENT = """
import gc, json, os, random, signal, sys, time
import torch, torch.nn.functional as F
from torch import nn

pid_file, phases, rounds = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])

class Loop:
    def __init__(self, doomed):
        self.doomed = doomed
        self.died = None
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(),
                                   nn.Linear(256, 10)).to("tvarant")
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.kept = torch.ones(1000, device="tvarant")

    def reach(self, phase):
        if self.doomed == phase and self.died is None:
            time.sleep(random.random() * 0.01)
            self.died = time.monotonic()
            os.kill(int(open(pid_file).read()), signal.SIGKILL)

    def step(self):
        self.reach("allocate")
        room = torch.empty(3_000_000, device="tvarant")
        self.reach("upload")
        x = torch.randn(128, 64).to("tvarant")
        y = (torch.arange(128) % 10).to("tvarant")
        for _ in range(20):
            self.reach("forward")
            loss = F.cross_entropy(self.model(x), y)
            self.reach("backward")
            self.optimizer.zero_grad()
            loss.backward()
            self.reach("optimizer")
            self.optimizer.step()
        self.reach("read")
        assert loss.item() == loss.item()
        self.reach("synchronize")
        torch.tvarant.synchronize()
        self.reach("download")
        assert room.fill_(2).cpu().eq(2).all()
        self.reach("idle")

def start(doomed):
    end = time.monotonic() + 20
    while True:
        try:
            loop = Loop(None)
            loop.step()
            loop.doomed = doomed
            return loop
        except RuntimeError:  # not back yet
            if time.monotonic() > end: raise
            time.sleep(0.05)

results = []
for i in range(rounds):
    phase = phases[i % len(phases)]
    loop = start(phase)
    try:
        while True:
            loop.step()
    except torch.AcceleratorError as error:
        took = time.monotonic() - loop.died
        text = str(error).splitlines()[0]
    old = []
    for use in (lambda: loop.kept.cpu(), lambda: (loop.kept + 1).sum().item()):
        begin = time.monotonic()
        try:
            use()
            old.append("read")
        except RuntimeError:
            old.append(time.monotonic() - begin)
    results.append([phase, took, text, old])
    del loop
    gc.collect()
print(json.dumps(results))
"""


class Keeper:
    """Starts the daemon again whenever it has died."""

    def __init__(self, daemon: Daemon, pid_file: Path) -> None:
        self.daemon = daemon
        self.pid_file = pid_file
        self.deaths = 0
        self.stopping = False
        self.tell_pid()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def tell_pid(self) -> None:
        self.pid_file.write_text(str(self.daemon.process.pid))

    def watch(self) -> None:
        while True:
            self.daemon.process.wait()
            if self.stopping:
                return
            self.deaths += 1
            self.daemon.start()
            self.tell_pid()

    def stop(self) -> None:
        self.stopping = True
        self.daemon.process.terminate()
        self.thread.join()
        self.daemon.stop()


@pytest.mark.parametrize("make", [Daemon, TcpDaemon])
def test_killed_in_each_phase_and_back(make, tmp_path):
    keeper = Keeper(make("--memory=512MiB"), tmp_path / "pid")
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                CLIENT,
                str(keeper.pid_file),
                ",".join(PHASES),
                str(ROUNDS),
            ],
            capture_output=True,
            text=True,
            timeout=60 + 10 * ROUNDS,
            env={**os.environ, **keeper.daemon.env},
            check=False,
        )
    finally:
        keeper.stop()
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    results = json.loads(done.stdout)
    assert len(results) == keeper.deaths == ROUNDS
    for phase, took, text, old in results:
        assert text.startswith("DEVICE_LOST: "), (phase, text)
        assert took <= 2, (phase, took)
        assert all(isinstance(t, float) and t <= 2 for t in old), (phase, old)
    if os.environ.get("TVARANT_MEASURE") == "1":
        worst = max(took for _, took, _, _ in results)
        print(f"\n{make.__name__}: {ROUNDS} deaths, error after at most {worst:.3f} s")
