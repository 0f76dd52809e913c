"""Runs transformers' own model tests on the CPU and here, and compares.

Those tests are no part of its wheel, so a checkout of the installed version is
named. What passes on the CPU should pass on the device.

    python tests/models/transformers_suite.py CHECKOUT [--models bert gpt2 llama t5]

Prints a line a model, then every test that passes on the CPU alone. Exit status
1 below the share asked for (--share 0.95).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tqdm import tqdm

MODELS = ("bert", "gpt2", "llama", "t5")

# What transformers.testing_utils imports for a device that it doesn't know.
DEVICE_SPEC = """
import torch

DEVICE_NAME = "tvarant"
MANUAL_SEED_FN = torch.manual_seed
EMPTY_CACHE_FN = torch.tvarant.empty_cache
DEVICE_COUNT_FN = torch.tvarant.device_count
"""


def passed(report: Path) -> tuple[set[str], dict[str, str]]:
    """Names that passed, and of those that failed the first line of why."""
    good: set[str] = set()
    bad: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}.{case.get('name')}"
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        if problem is not None:
            bad[name] = (problem.get("message") or "").strip().split("\n")[0][:160]
        elif case.find("skipped") is None:
            good.add(name)
    return good, bad


def run(
    checkout: Path, model: str, device: str, work: Path, seconds: float
) -> tuple[set[str], dict[str, str]]:
    """One model's tests on a device, in a process of its own."""
    spec = work / "device_spec.py"
    spec.write_text(DEVICE_SPEC)
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_TEST_DEVICE": device,
    }
    if device == "cpu":
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    else:
        environment["TRANSFORMERS_TEST_DEVICE_SPEC"] = str(spec)
    report = work / f"{model}-{device}.xml"
    with (work / f"{model}-{device}.log").open("w") as log:
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                f"--junitxml={report}",
                f"tests/models/{model}/test_modeling_{model}.py",
            ],
            cwd=checkout,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    return passed(report)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path, help="folder with transformers' tests/")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--share", type=float, default=0.95)
    parser.add_argument("--seconds", type=float, default=3600, help="a run's limit")
    parser.add_argument("--out", type=Path, help="keeps logs and reports there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = (options.out or Path(scratch)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        rows: list[str] = []
        misses: list[str] = []
        worst = 1.0
        for model in tqdm(options.models, unit="model"):
            on_cpu, _ = run(options.checkout, model, "cpu", work, options.seconds)
            here, why = run(options.checkout, model, "tvarant", work, options.seconds)
            both = on_cpu & here
            share = len(both) / max(len(on_cpu), 1)
            worst = min(worst, share)
            rows.append(f"{model:8} {len(both)} of {len(on_cpu)}  {share:.1%}")
            misses += [
                f"{model}: {name}: {why.get(name, 'did not run')}"
                for name in sorted(on_cpu - here)
            ]
    print("\n".join(rows + misses))
    return 0 if worst >= options.share else 1


if __name__ == "__main__":
    sys.exit(main())
