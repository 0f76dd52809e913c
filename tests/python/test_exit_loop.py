"""Exits in rows of a hundred: status 0, nothing on stderr, nothing left behind.

What aborts at exit aborts now and then, so one exit proves little.
"""

from __future__ import annotations

import concurrent.futures

import pytest
from support import Zygote

COUNT = 100
AT_ONCE = 2
FRESH = 6

PROGRAMS = {
    "live tensors": """
import torch
x = torch.randn(64, 64, device="tvarant")
views = list((x @ x).relu_().unbind())
parameter = torch.nn.Parameter(x)
stream = torch.tvarant.Stream()
event = torch.tvarant.Event()
event.record()
""",
    "right after backward": """
import torch
model = torch.nn.Sequential(
    torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
).to("tvarant")
model(torch.ones(4, 16, device="tvarant")).sum().backward()
""",
}


def check(results: list[tuple[int, str]]) -> None:
    bad = [result for result in results if result != (0, "")]
    assert not bad, f"{len(bad)} of {len(results)} exits; the first: {bad[0]}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PROGRAMS)
def test_silent_exits(daemon, name):
    def row(count: int) -> list[tuple[int, str]]:
        zygote = Zygote()
        try:
            done = [zygote.run(PROGRAMS[name], env=daemon.env) for _ in range(count)]
        finally:
            zygote.stop()
        return [(d.returncode, d.stdout + d.stderr) for d in done]

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        rows = pool.map(row, [COUNT // AT_ONCE] * AT_ONCE)
        check([result for one in rows for result in one])


@pytest.mark.parametrize("name", PROGRAMS)
def test_silent_exits_of_fresh_interpreters(daemon, fresh_script, name):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = pool.map(
            lambda _: fresh_script(PROGRAMS[name], 120, daemon.env), range(FRESH)
        )
        check([(d.returncode, d.stdout + d.stderr) for d in done])
