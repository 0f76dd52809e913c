"""Generators: seeds, states, forks, and the very numbers of a seed."""

from __future__ import annotations

import pytest
import torch
from support import DEVICE, assert_same

MASK = 0xFFFFFFFF


def philox(seed: int, counter: int) -> list[int]:
    """Four words of Philox 4x32-10 (Salmon et al., SC 2011), counter {c, 0, 0}."""
    c = [counter & MASK, counter >> 32 & MASK, 0, 0]
    key = [seed & MASK, seed >> 32 & MASK]
    for _ in range(10):
        low = 0xD2511F53 * c[0]
        high = 0xCD9E8D57 * c[2]
        c = [
            (high >> 32) ^ c[1] ^ key[0],
            high & MASK,
            (low >> 32) ^ c[3] ^ key[1],
            low & MASK,
        ]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return c


def draw(n: int = 8, **options) -> torch.Tensor:
    return torch.rand(n, device=DEVICE, **options).cpu()


class TestKnownNumbers:
    """The same on every runtime, in every process, mapped or not."""

    def test_reference_itself(self):
        # From the authors' known-answer file.
        assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]

    @pytest.mark.parametrize("seed", [0, 5, 2**40 + 3])
    def test_rand(self, seed):
        torch.tvarant.manual_seed(seed)
        expected = [(w >> 8) * 2.0**-24 for c in range(3) for w in philox(seed, c)]
        assert draw(12).tolist() == expected

    def test_offset_goes_on(self):
        torch.tvarant.manual_seed(5)
        draw(6)  # two counters
        expected = [(w >> 8) * 2.0**-24 for w in philox(5, 2)]
        assert draw(4).tolist() == expected

    def test_strides_do_not_change_the_numbers(self):
        torch.tvarant.manual_seed(5)
        dense = torch.rand(4, 6, device=DEVICE).cpu()
        torch.tvarant.manual_seed(5)
        strided = torch.empty(6, 4, device=DEVICE).t().uniform_()
        assert torch.equal(strided.cpu(), dense)

    def test_equal_in_another_process(self, script):
        torch.tvarant.manual_seed(11)
        ours = [draw(3).tolist(), torch.randn(3, device=DEVICE).tolist()]
        for mapped in ("0", "1"):
            done = script(
                """
import torch
torch.manual_seed(11)
print([torch.rand(3, device="tvarant").tolist(),
       torch.randn(3, device="tvarant").tolist()])
""",
                env={"TVARANT_SIM_MAP": mapped},
            )
            assert done.stdout.strip() == str(ours), done.stderr


class TestSeeds:
    def test_manual_seed_repeats(self):
        torch.tvarant.manual_seed(3)
        first = draw()
        assert not torch.equal(draw(), first)
        torch.tvarant.manual_seed(3)
        assert torch.equal(draw(), first)
        torch.tvarant.manual_seed_all(3)
        assert torch.equal(draw(), first)
        torch.tvarant.manual_seed(4)
        assert not torch.equal(draw(), first)

    def test_torch_manual_seed_reaches_the_device(self):
        torch.manual_seed(3)
        first = draw()
        torch.manual_seed(3)
        assert torch.equal(draw(), first)
        assert torch.tvarant.initial_seed() == 3

    def test_random_seed(self):
        assert torch.tvarant.seed() == torch.tvarant.initial_seed()
        first = draw()
        torch.tvarant.seed()
        assert not torch.equal(draw(), first)
        torch.tvarant.seed_all()

    def test_negative_and_large(self):
        torch.tvarant.manual_seed(-1)
        first = draw()
        torch.tvarant.manual_seed(2**64 - 1)
        assert torch.equal(draw(), first)

    def test_cpu_is_not_disturbed(self):
        torch.manual_seed(1)
        expected = torch.rand(4)
        torch.manual_seed(1)
        draw()
        torch.randn(100, device=DEVICE)
        assert torch.equal(torch.rand(4), expected)


class TestState:
    def test_get_and_set(self):
        torch.tvarant.manual_seed(7)
        draw()
        state = torch.tvarant.get_rng_state()
        assert state.dtype == torch.uint8 and state.device.type == "cpu"
        first = [draw(), torch.randn(5, device=DEVICE).cpu()]
        torch.tvarant.set_rng_state(state)
        assert torch.equal(draw(), first[0])
        assert torch.equal(torch.randn(5, device=DEVICE).cpu(), first[1])

    def test_all(self):
        states = torch.tvarant.get_rng_state_all()
        assert len(states) == torch.tvarant.device_count()
        first = draw()
        torch.tvarant.set_rng_state_all(states)
        assert torch.equal(draw(), first)

    @pytest.mark.parametrize(
        "state", [torch.zeros(3, dtype=torch.uint8), torch.zeros(16)]
    )
    def test_wrong_state_is_refused(self, state):
        with pytest.raises((RuntimeError, TypeError)):
            torch.tvarant.set_rng_state(state)
        draw()

    def test_fork_rng(self):
        torch.manual_seed(2)
        with torch.tvarant.fork_rng():
            draw(), torch.rand(2)
            torch.manual_seed(9)
        first = draw(), torch.rand(2)
        torch.manual_seed(2)
        assert torch.equal(draw(), first[0])
        assert torch.equal(torch.rand(2), first[1])
        with torch.random.fork_rng(device_type="tvarant"):
            torch.manual_seed(9)
        with torch.tvarant.fork_rng(enabled=False):
            torch.tvarant.manual_seed(9)
        assert torch.tvarant.initial_seed() == 9


class TestGenerator:
    def test_is_of_the_device(self):
        generator = torch.Generator(device="tvarant")
        assert generator.device == DEVICE
        assert torch.tvarant.default_generators[0].device == DEVICE
        assert len(torch.tvarant.default_generators) == 1
        with pytest.raises(IndexError):
            _ = torch.tvarant.default_generators[1]

    def test_own_sequence(self):
        generator = torch.Generator(device="tvarant").manual_seed(5)
        assert generator.initial_seed() == 5
        first = draw(generator=generator)
        torch.tvarant.manual_seed(5)
        assert torch.equal(draw(), first)
        second = draw(generator=generator)
        assert torch.equal(draw(), second) and not torch.equal(first, second)

    def test_state(self):
        generator = torch.Generator(device="tvarant").manual_seed(5)
        state = generator.get_state()
        first = draw(generator=generator)
        generator.set_state(state)
        assert torch.equal(draw(generator=generator), first)

    def test_clone_is_independent(self):
        generator = torch.Generator(device="tvarant").manual_seed(5)
        draw(generator=generator)
        copy = generator.clone_state()
        assert copy.device == DEVICE
        first = draw(generator=copy)
        assert torch.equal(draw(generator=generator), first)

    def test_shared_state(self):
        generator = torch.Generator(device="tvarant").manual_seed(5)
        shared = torch.Generator(device="tvarant")
        shared.graphsafe_set_state(generator.graphsafe_get_state())
        first = draw(generator=generator)
        assert not torch.equal(draw(generator=shared), first)
        generator.manual_seed(5)
        assert torch.equal(draw(generator=shared), first)

    def test_default_generator_is_the_devices(self):
        torch.tvarant.manual_seed(8)
        first = draw()
        torch.tvarant.default_generators[0].manual_seed(8)
        assert torch.equal(draw(), first)

    def test_other_devices_generator_is_refused(self):
        with pytest.raises(RuntimeError, match="(?i)generator"):
            draw(generator=torch.Generator())
        with pytest.raises(RuntimeError, match="(?i)generator"):
            torch.rand(2, generator=torch.Generator(device="tvarant"))

    def test_each_op_advances(self):
        """No two launches share a piece of the sequence."""
        x = torch.ones(16, device=DEVICE)
        ops = [
            lambda: torch.rand(16, device=DEVICE),
            lambda: torch.randn(16, device=DEVICE),
            lambda: torch.rand(16, device=DEVICE, dtype=torch.float64),
            lambda: torch.randint(0, 1 << 30, (16,), device=DEVICE),
            lambda: torch.bernoulli(x * 0.5),
            lambda: torch.nn.functional.dropout(x, 0.5),
        ]
        for op in ops:
            torch.tvarant.manual_seed(1)
            op()
            state = torch.tvarant.get_rng_state()
            after = draw(64)
            torch.tvarant.manual_seed(1)
            assert not torch.equal(torch.tvarant.get_rng_state(), state)
            before = draw(64)
            # Windows of four numbers: one counter each.
            seen = {tuple(w) for w in before.reshape(-1, 4)[:4].tolist()}
            assert not seen & {tuple(w) for w in after.reshape(-1, 4).tolist()}

    def test_empty_draws_use_nothing(self):
        torch.tvarant.manual_seed(1)
        state = torch.tvarant.get_rng_state()
        torch.rand(0, 3, device=DEVICE)
        assert torch.equal(torch.tvarant.get_rng_state(), state)


class TestCheckpoint:
    @pytest.mark.parametrize("reentrant", [False, True])
    def test_dropout_is_recomputed_alike(self, reentrant):
        from torch.utils.checkpoint import checkpoint

        def run(block):
            torch.manual_seed(6)
            x = torch.ones(64, device=DEVICE, requires_grad=True)
            block(lambda t: torch.nn.functional.dropout(t * 3, 0.5), x).sum().backward()
            return x.grad.cpu()

        plain = run(lambda f, x: f(x))
        assert 0 < (plain == 0).sum() < 64
        again = run(lambda f, x: checkpoint(f, x, use_reentrant=reentrant))
        assert torch.equal(plain, again)

    def test_after_a_checkpoint_on_the_cpu(self):
        from torch.utils.checkpoint import checkpoint

        x = torch.ones(4, requires_grad=True)
        checkpoint(torch.nn.functional.dropout, x, use_reentrant=True).sum().backward()
        self.test_dropout_is_recomputed_alike(True)


def test_seeded_weights_are_the_same_everywhere():
    """A model made on the CPU and moved equals its CPU twin, whatever was drawn."""
    torch.manual_seed(0)
    twin = torch.nn.Linear(8, 8)
    torch.manual_seed(0)
    draw(1000)
    model = torch.nn.Linear(8, 8).to(DEVICE)
    assert_same(model.weight, twin.weight)
