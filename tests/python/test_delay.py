"""A daemon that is 1 and 10 ms away: what a training step of a GPT costs.

TVARANT_MEASURE=1 prints the figures. Transfers are measured by
tests/integration/delay_test.cc.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tcp_daemon import REPOSITORY, TcpDaemon

sys.path.append(str(REPOSITORY / "tests" / "integration"))
import delay_line  # noqa: E402
from delay_line import FAR, DelayLine  # noqa: E402

pytestmark = pytest.mark.skipif(
    not delay_line.available(), reason="no network namespaces or TUN devices here"
)

MEASURE = os.environ.get("TVARANT_MEASURE") == "1"
PORT = 7077

STEP = """
import json, time, torch, torch.nn.functional as F
from torch import nn

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(
            2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

class GPT(nn.Module):
    def __init__(self, words=256, width=64, heads=4, layers=4, length=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens) + self.place))

torch.manual_seed(0)
model = GPT().to("tvarant")
optimizer = torch.optim.AdamW(model.parameters())

def step():
    tokens = torch.randint(256, (4, 33)).to("tvarant")
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

for _ in range(3):
    step()
times, trips = [], []
for _ in range(20):
    before = torch.tvarant.counters()["round_trips"]
    begin = time.monotonic()
    step()
    times.append(time.monotonic() - begin)
    trips.append(torch.tvarant.counters()["round_trips"] - before)
print(json.dumps([sorted(times)[len(times) // 2], max(trips)]))
"""


def run(line: DelayLine, code: str, *args: str, env: dict[str, str] | None = None):
    done = subprocess.run(
        [*line.near, sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **(env or {})},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def at() -> Iterator:
    """at(delay_ms, code): what the code prints, as a client at that distance."""

    def client(delay_ms: float, code: str):
        with DelayLine(delay_ms) as line:
            daemon = TcpDaemon("--memory=512MiB", host=FAR, port=PORT, prefix=line.far)
            try:
                return run(line, code, env=daemon.env)
            finally:
                daemon.stop()

    yield client


@pytest.fixture(scope="module")
def step_here(at) -> float:
    """The same step over the same line without a delay."""
    return at(0, STEP)[0]


@pytest.mark.parametrize("delay_ms", [1, 10])
def test_a_step_costs_the_round_trips_of_its_reads(at, step_here, delay_ms):
    step, trips = at(delay_ms, STEP)
    added = step - step_here
    round_trip = 2 * delay_ms / 1000
    if MEASURE:
        print(
            f"\n{delay_ms} ms: GPT step {step * 1e3:.1f} ms, {step_here * 1e3:.1f} ms "
            f"without delay: {added / round_trip:.2f} round trips, {trips} reads"
        )
    assert trips == 1
    assert added <= (trips + 0.5) * round_trip + 0.5 * step_here + 0.005
