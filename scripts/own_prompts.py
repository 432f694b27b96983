"""Lets a chat model write the prompts that its draft will be trained on: what it takes for a user's turn.

    python scripts/own_prompts.py --target TARGET --count 3000 --out own.jsonl

The chat template is cut where the user's text begins, and the target goes on from there until it ends the turn. So the
prompts are as varied as what the target was taught on, and belong to nobody else. Which ones come out depends on the
target, the seed and the temperature. Turns that do not end, are very short, or have come before are left out. JSON
Lines with `id` and `prompt`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import track

from saguaro import LLM, SamplingParams

USER = "\u241f"
"""Stands for the user's text in the template."""
LONGEST, SHORTEST = 128, 12
"""Tokens of a prompt, and characters."""
AT_ONCE = 64
MOST_USELESS = 1000
"""Turns in a row that give no prompt, after which there is no hope."""


def beginning(llm: LLM) -> list[int]:
    """Token ids of the template as far as the user's text.

    Raises:
        SystemExit: when the template does not keep the user's text as it is.
    """
    text = llm.tokenizer.apply_chat_template([{"role": "user", "content": USER}])
    head, found, _ = text.partition(USER)
    if not found:
        raise SystemExit("the chat template changes the user's text; prompts cannot be taken from it.")
    return llm.tokenizer.encode(head, add_special=False)


def turns(llm: LLM, seed: int, temperature: float) -> Iterator[str]:
    """User's turns, endlessly; those of one seed come in one order."""
    head = beginning(llm)
    while True:
        params = [
            SamplingParams(temperature=temperature, top_p=0.95, max_tokens=LONGEST, seed=seed + i)
            for i in range(AT_ONCE)
        ]
        seed += AT_ONCE
        for answer in llm.generate([head] * AT_ONCE, params):
            yield answer.text.strip() if answer.finish_reason == "stop" else ""


def different(written: Iterable[str]) -> Iterator[str]:
    """Turns that are long enough and have not come before.

    Raises:
        SystemExit: after MOST_USELESS others in a row.
    """
    found: set[str] = set()
    useless = 0
    for text in written:
        if len(text) >= SHORTEST and text not in found:
            found.add(text)
            useless = 0
            yield text
            continue
        useless += 1
        if useless >= MOST_USELESS:
            raise SystemExit(f"{MOST_USELESS} turns in a row gave no new prompt; give a smaller --count.")


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description="Prompts that a chat model itself takes for a user's turn.")
    parser.add_argument("--target", required=True)
    parser.add_argument("--target-device", default="cpu:0")
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with LLM(
        options.target, mode="ar", dtype=options.dtype, target_device=options.target_device, max_batch=AT_ONCE,
        max_model_len=1024,
    ) as llm:  # fmt: skip
        made = islice(different(turns(llm, options.seed, options.temperature)), options.count)
        found = list(track(made, "prompts", total=options.count, console=Console(stderr=True)))
    lines = [json.dumps({"id": f"own-{i}", "prompt": text}, ensure_ascii=False) for i, text in enumerate(found)]
    options.out.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
