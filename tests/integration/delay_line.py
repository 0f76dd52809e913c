"""A line between two network namespaces that holds every packet for a while.

Packets are read from a TUN device in one namespace, kept for the delay, and
written to the one in the other. Needs root. Example::

    with DelayLine(delay_ms=10) as line:
        subprocess.run([*line.near, "ping", "-c1", FAR])
"""

from __future__ import annotations

import collections
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

NEAR, FAR = "10.77.0.1", "10.77.0.2"

MTU = 9000
# Packets that the line holds, in each direction; more are dropped, as a router
# would. 64 MiB: what a fast link has under way in 10 ms and more.
MAX_HELD = 8192


class DelayLine:
    """`near` and `far` are what runs a command in each namespace."""

    def __init__(self, delay_ms: float) -> None:
        names = [f"tv{os.getpid()}n", f"tv{os.getpid()}f"]
        self.names = names
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        self.near, self.far = (["ip", "netns", "exec", name] for name in names)
        self.process = subprocess.Popen(
            [sys.executable, __file__, *names, str(delay_ms / 1000)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self) -> DelayLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(10)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=True)


def available() -> bool:
    """Whether namespaces and TUN devices can be made here."""
    name = f"tv{os.getpid()}t"
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        return False
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return False
    subprocess.run(["ip", "netns", "del", name], check=True)
    return True


def open_tun(namespace: str, address: str) -> int:
    """A TUN device in a namespace, which this thread is in afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    tunsetiff, iff_tun, iff_no_pi = 0x400454CA, 0x0001, 0x1000
    request = struct.pack("16sH22x", b"tvdelay", iff_tun | iff_no_pi)
    fcntl.ioctl(tun, tunsetiff, request)
    for command in (
        f"addr add {address}/24 dev tvdelay",
        f"link set tvdelay up mtu {MTU} txqueuelen 10000",
        "link set lo up",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    return tun


def carry(ends: list[int], delay_s: float) -> None:
    """Until stdin ends."""
    poll = select.poll()
    for fd in (*ends, 0):
        poll.register(fd, select.POLLIN)
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    held = {fd: collections.deque() for fd in ends}  # by the end they came from
    while True:
        dues = [queue[0][0] for queue in held.values() if queue]
        timeout = None
        if dues:
            timeout = max(0.0, (min(dues) - time.monotonic()) * 1000)
            # poll counts whole milliseconds: the last one is spent looking.
            timeout = int(timeout)
        for fd, _ in poll.poll(timeout):
            if fd == 0:
                return
            for _ in range(64):
                try:
                    packet = os.read(fd, MTU)
                except BlockingIOError:
                    break
                if len(held[fd]) < MAX_HELD:
                    held[fd].append((time.monotonic() + delay_s, packet))
        now = time.monotonic()
        for fd, queue in held.items():
            while queue and queue[0][0] <= now:
                try:
                    os.write(other[fd], queue[0][1])
                except BlockingIOError:
                    break
                queue.popleft()


if __name__ == "__main__":
    ends = [
        open_tun(name, address)
        for name, address in zip(sys.argv[1:3], (NEAR, FAR), strict=True)
    ]
    print("ready", flush=True)
    carry(ends, float(sys.argv[3]))
