"""Architectures of the transformers library, small and with random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from support import DEVICE
from training import forward_both, train_both

VOCABULARY = 99
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, shape, generator=generator)


def mask(*shape: int) -> torch.Tensor:
    """The second sequence of a batch is shorter."""
    ones = torch.ones(shape, dtype=torch.long)
    ones[1, shape[1] // 2 :] = 0
    return ones


def pixels(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def bert() -> tuple[Any, dict]:
    config = transformers.BertConfig(**SMALL, **NO_DROPOUT)
    return transformers.BertForMaskedLM(config), {
        "input_ids": tokens(2, 12),
        "attention_mask": mask(2, 12),
        "labels": tokens(2, 12, seed=1),
    }


def gpt2() -> tuple[Any, dict]:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.GPT2LMHeadModel(config), {
        "input_ids": tokens(2, 12),
        "labels": tokens(2, 12),
    }


def llama() -> tuple[Any, dict]:
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config), {
        "input_ids": tokens(2, 12),
        "attention_mask": mask(2, 12),
        "labels": tokens(2, 12),
    }


def qwen3() -> tuple[Any, dict]:
    config = transformers.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=8)
    return transformers.Qwen3ForCausalLM(config), {
        "input_ids": tokens(2, 12),
        "labels": tokens(2, 12),
    }


def t5() -> tuple[Any, dict]:
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=37,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config), {
        "input_ids": tokens(2, 12),
        "attention_mask": mask(2, 12),
        "labels": tokens(2, 7),
    }


def whisper() -> tuple[Any, dict]:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        num_mel_bins=8,
        max_source_positions=20,
        max_target_positions=24,
        dropout=0.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return transformers.WhisperForConditionalGeneration(config), {
        "input_features": pixels(2, 8, 40),
        "labels": tokens(2, 7),
    }


def vit() -> tuple[Any, dict]:
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        image_size=32,
        patch_size=8,
        num_labels=5,
        **NO_DROPOUT,
    )
    return transformers.ViTForImageClassification(config), {
        "pixel_values": pixels(2, 3, 32, 32),
        "labels": torch.tensor([1, 4]),
    }


def convnext() -> tuple[Any, dict]:
    config = transformers.ConvNextConfig(
        hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=5
    )
    return transformers.ConvNextForImageClassification(config), {
        "pixel_values": pixels(2, 3, 32, 32),
        "labels": torch.tensor([1, 4]),
    }


ALL = [bert, gpt2, llama, qwen3, t5, whisper, vit, convnext]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_training(make, dtype):
    torch.manual_seed(0)
    model, batch = make()
    train_both(model, lambda net, data: net(**data).loss, batch, dtype)


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_forward(make):
    torch.manual_seed(0)
    model, batch = make()
    forward_both(model, lambda net, data: net(**data).logits, batch)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_implementations(attention):
    torch.manual_seed(0)
    model, batch = llama()
    model.set_attn_implementation(attention)
    forward_both(model, lambda net, data: net(**data).logits, batch)


@pytest.mark.parametrize(
    "make", [gpt2, llama, qwen3, t5, whisper], ids=lambda make: make.__name__
)
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_the_cpus_token_for_token(make, beams):
    torch.manual_seed(0)
    model, batch = make()
    model = model.eval()
    prompt = {
        name: value
        for name, value in batch.items()
        if name in ("input_ids", "input_features")
    }
    options = {
        "max_new_tokens": 10,
        "do_sample": False,
        "num_beams": beams,
        "pad_token_id": 0,
    }
    expected = model.generate(**prompt, **options)
    torch.tvarant.reset_fallback_stats()
    ours = model.to(DEVICE).generate(
        **{name: value.to(DEVICE) for name, value in prompt.items()}, **options
    )
    assert ours.tolist() == expected.tolist()
    assert not torch.tvarant.fallback_stats(), torch.tvarant.fallback_stats()


def test_sampled_generation_repeats_with_the_seed():
    torch.manual_seed(0)
    model, batch = gpt2()
    model = model.eval().to(DEVICE)
    prompt = batch["input_ids"].to(DEVICE)
    torch.tvarant.reset_fallback_stats()
    runs = []
    for seed in (7, 7, 8):
        torch.manual_seed(seed)
        runs.append(
            model.generate(
                prompt,
                max_new_tokens=12,
                do_sample=True,
                top_k=20,
                top_p=0.9,
                pad_token_id=0,
            ).tolist()
        )
    assert runs[0] == runs[1] != runs[2]
    assert not torch.tvarant.fallback_stats(), torch.tvarant.fallback_stats()
