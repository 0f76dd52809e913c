"""Streams and events: order, waiting, time, one current stream a thread."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from support import DEVICE


def busy(rounds: int = 40) -> torch.Tensor:
    """Work that takes a while on the current stream. The result is all ones."""
    x = torch.eye(384, device="tvarant")
    for _ in range(rounds):
        x = x @ x
    return x.sum(0)


class TestStream:
    def test_default_and_current(self):
        assert torch.tvarant.current_stream() == torch.tvarant.default_stream()
        assert torch.tvarant.default_stream("tvarant:0").stream_id == 0
        assert isinstance(torch.tvarant.current_stream(0), torch.tvarant.Stream)
        assert torch.tvarant.current_stream().device == DEVICE

    def test_new_streams_differ(self):
        first, second = torch.tvarant.Stream(), torch.tvarant.Stream("tvarant:0")
        assert first != second and first != torch.tvarant.default_stream()
        assert first.device == DEVICE and "Stream" in repr(first)
        assert isinstance(first, torch.Stream)
        assert len({first, second, torch.tvarant.Stream(priority=-1)}) == 3

    def test_of_another_device(self):
        with pytest.raises((RuntimeError, ValueError)):
            torch.tvarant.Stream("cpu")
        with pytest.raises(RuntimeError):
            torch.tvarant.Stream(9)

    def test_context(self):
        stream = torch.tvarant.Stream()
        default = torch.tvarant.current_stream()
        with torch.tvarant.stream(stream):
            assert torch.tvarant.current_stream() == stream
            with torch.tvarant.stream(None):
                assert torch.tvarant.current_stream() == stream
            with torch.tvarant.stream(default):
                assert torch.tvarant.current_stream() == default
            assert torch.tvarant.current_stream() == stream
        with pytest.raises(ZeroDivisionError), torch.tvarant.StreamContext(stream):
            _ = 1 / 0
        assert torch.tvarant.current_stream() == default

    def test_set_stream(self):
        stream, default = torch.tvarant.Stream(), torch.tvarant.current_stream()
        torch.tvarant.set_stream(None)
        assert torch.tvarant.current_stream() == default
        torch.tvarant.set_stream(stream)
        try:
            assert torch.tvarant.current_stream() == stream
        finally:
            torch.tvarant.set_stream(default)

    def test_query_and_synchronize(self):
        stream = torch.tvarant.Stream()
        assert stream.query()
        with torch.tvarant.stream(stream):
            x = busy(200)
            assert not stream.query()
        stream.synchronize()
        assert stream.query()
        assert x.sum().item() == 384

    def test_query_makes_progress_by_itself(self):
        x = torch.ones(8, device="tvarant") + 1
        deadline = time.monotonic() + 20
        while not torch.tvarant.current_stream().query():
            assert time.monotonic() < deadline
        assert x.sum().item() == 16

    def test_each_thread_has_its_own_current_stream(self):
        stream, seen = torch.tvarant.Stream(), {}
        ready, go_on = threading.Event(), threading.Event()

        def other():
            seen["start"] = torch.tvarant.current_stream()
            torch.tvarant.set_stream(stream)
            ready.set()
            go_on.wait(20)
            seen["end"] = torch.tvarant.current_stream()

        thread = threading.Thread(target=other)
        thread.start()
        assert ready.wait(20)
        default = torch.tvarant.current_stream()
        with torch.tvarant.stream(torch.tvarant.Stream()):
            go_on.set()
            thread.join()
        assert default == torch.tvarant.default_stream() == seen["start"]
        assert seen["end"] == stream

    def test_many_streams(self):
        streams = [torch.tvarant.Stream() for _ in range(100)]
        total = torch.zeros(1, device="tvarant")
        for i, stream in enumerate(streams):
            stream.wait_stream(torch.tvarant.current_stream())
            with torch.tvarant.stream(stream):
                total += i
            torch.tvarant.current_stream().wait_stream(stream)
        assert total.item() == sum(range(100))


class TestOrder:
    def test_wait_stream(self):
        producer, consumer = torch.tvarant.Stream(), torch.tvarant.Stream()
        for _ in range(5):
            with torch.tvarant.stream(producer):
                ones = busy()
            consumer.wait_stream(producer)
            with torch.tvarant.stream(consumer):
                result = ones * 2
            torch.tvarant.current_stream().wait_stream(consumer)
            assert result.sum().item() == 2 * 384
            for tensor, stream in (
                (ones, consumer),
                (result, torch.tvarant.current_stream()),
            ):
                tensor.record_stream(stream)

    def test_wait_for_an_event(self):
        source = torch.zeros(384, device="tvarant")
        side = torch.tvarant.Stream()
        side.wait_stream(torch.tvarant.current_stream())
        with torch.tvarant.stream(side):
            source += busy()
            event = torch.tvarant.current_stream().record_event()
            later = busy(100)
        event.wait()
        assert (source + 1).sum().item() == 2 * 384
        torch.tvarant.current_stream().wait_stream(side)
        assert later.sum().item() == 384

    def test_wait_for_an_event_never_recorded(self):
        event = torch.tvarant.Event()
        event.wait()
        event.wait(torch.tvarant.Stream())
        torch.tvarant.Stream().wait_event(event)
        torch.tvarant.synchronize()

    def test_copy_to_the_host_waits_for_its_stream(self):
        side = torch.tvarant.Stream()
        with torch.tvarant.stream(side):
            assert busy().cpu().sum().item() == 384

    def test_synchronize_covers_side_streams(self):
        side = torch.tvarant.Stream()
        with torch.tvarant.stream(side):
            x = busy(100)
        torch.tvarant.synchronize()
        assert side.query()
        assert x.sum().item() == 384

    def test_backward_runs_on_the_streams_of_forward(self):
        side = torch.tvarant.Stream()
        w = torch.ones(64, 64, device="tvarant", requires_grad=True)
        side.wait_stream(torch.tvarant.current_stream())
        with torch.tvarant.stream(side):
            loss = (w @ w).sum()
        loss.backward()
        torch.tvarant.current_stream().wait_stream(side)
        assert (w.grad == 128).all().item()


class TestEvent:
    def test_life(self):
        event = torch.tvarant.Event(enable_timing=True)
        assert isinstance(event, torch.Event) and "Event" in repr(event)
        assert event.query()
        event.synchronize()
        x = busy(200)
        event.record()
        assert not event.query()
        event.synchronize()
        assert event.query()
        assert x.sum().item() == 384

    def test_record_on_a_stream(self):
        side = torch.tvarant.Stream()
        with torch.tvarant.stream(side):
            busy(200)
        event = torch.tvarant.Event()
        event.record(side)
        assert not event.query()
        event.synchronize()
        assert side.query()
        assert side.record_event().device == DEVICE

    def test_elapsed_time(self):
        start, end = (torch.tvarant.Event(enable_timing=True) for _ in range(2))
        wall = time.perf_counter()
        start.record()
        busy(100)
        end.record()
        end.synchronize()
        wall = (time.perf_counter() - wall) * 1e3
        assert 0 < start.elapsed_time(end) <= wall + 1

    def test_elapsed_time_needs_timing_and_records(self):
        timed, plain = torch.tvarant.Event(enable_timing=True), torch.tvarant.Event()
        plain.record()
        timed.record()
        with pytest.raises((RuntimeError, ValueError)):
            timed.elapsed_time(plain)
        with pytest.raises((RuntimeError, ValueError)):
            timed.elapsed_time(torch.tvarant.Event(enable_timing=True))

    def test_recorded_again(self):
        event = torch.tvarant.Event()
        event.record()
        event.synchronize()
        x = busy(200)
        event.record()
        assert not event.query()
        event.synchronize()
        assert x.sum().item() == 384

    def test_dropped_at_once(self):
        for _ in range(200):
            torch.tvarant.Event().record()
        torch.tvarant.synchronize()


class TestThreads:
    def test_same_stream_from_many_threads(self):
        total = torch.zeros(1000, device="tvarant", dtype=torch.int64)
        errors = []

        def add():
            try:
                for _ in range(100):
                    total.add_(1)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert (total == 400).all().item()

    def test_own_streams_in_many_threads(self):
        results: list[float] = []

        def work(i: int) -> None:
            with torch.tvarant.stream(torch.tvarant.Stream()):
                x = torch.full((64,), float(i), device="tvarant")
                for _ in range(50):
                    x = x + 1
                results.append(x.sum().item())

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [64.0 * (i + 50) for i in range(8)]

    def test_allocation_and_free_race(self):
        errors = []

        def churn(i: int) -> None:
            try:
                for n in range(1, 200):
                    x = torch.full((n * 37 % 5000 + 1,), float(i), device="tvarant")
                    y = x + x
                    del x
                    if n % 20 == 0 and y[-1].item() != 2 * i:
                        errors.append((i, n))
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=churn, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
