"""What a pair is good for, for `saguaro doctor`: how target and draft understand each other, what that costs, what it
can bring. Configurations and tokenizers are read, weights are not.

Must not know: how facts are shown. Tests: tests/cli/test_doctor_pair.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from saguaro.bench.sizes import WEIGHT_BYTES, sizes
from saguaro.cli.doctor_facts import GB, Fact
from saguaro.cli.options import folders
from saguaro.drafting.shortlist import SIZE
from saguaro.engine.through_text import open_bridge
from saguaro.models.checkpoint import Checkpoint, open_checkpoint
from saguaro.models.pairing import HEAD, OWN_IDS, PADDED, SAME, TEXT, Pairing, pairing
from saguaro.theory.acceptance import expected_by_depth

if TYPE_CHECKING:
    from saguaro.engine.resolve import Plan

ACCEPTANCES = (0.6, 0.8)
LOOKAHEADS = range(1, 9)
WORTH = 1.05
"""Times AR that a mode has to promise at least."""
SAMPLE = (
    "def mean(values: list[float]) -> float:\n    return sum(values) / len(values)\n\n"
    "The answer is 3,141.59; it isn't exact, but close enough. Größe, naïve, 数学, Привет.\n"
)


def pair_facts(plan: Plan) -> Iterator[Fact]:
    """Everything about target and draft together; nothing for a target alone."""
    if plan.draft is None:
        return
    target = open_checkpoint(plan.target.source, hub_cache=folders().get("hub_cache"))
    draft = open_checkpoint(plan.draft.source, hub_cache=folders().get("hub_cache"), target=target)
    relation = pairing(target, draft)
    yield from _understanding(relation, target, draft, plan)
    if plan.through_text:
        yield from _through_text(target, draft, plan.vocab)
    trees = [] if relation.kind == HEAD else ["sd with tree"]
    yield Fact("runs in", ["ar", "sd", *trees, "ssd"], "", "what a draft of this kind can do")
    exact = "the target verifies its own ids, so the draft decides the speed and never the text"
    yield Fact("exact under", ["shared_noise", "rejection"], "", exact)
    yield from _worth(plan, draft, relation)


def _understanding(relation: Pairing, target: Checkpoint, draft: Checkpoint, plan: Plan) -> Iterator[Fact]:
    """What the draft is, and how the ids relate."""
    more = target.config.vocab - draft.config.vocab
    side = "target" if more > 0 else "draft"
    rows = draft.config.head_rows
    kinds = {
        SAME: ("a language model", "the same"),
        PADDED: ("a language model", f"the same ids; the {side} has {abs(more):,} rows more, which never match"),
        OWN_IDS: (f"a language model that can say {rows:,} of {target.config.vocab:,} tokens", "the same"),
        HEAD: (f"an EAGLE-3 head that can say {rows:,} tokens", "the target's"),
        TEXT: ("a language model with another tokenizer", f"different, so they meet in text; {relation.difference}"),
    }
    what, tokenizers = kinds[relation.kind]
    if relation.kind == HEAD:
        what += f" and reads the inputs of the target's layers {', '.join(map(str, plan.taps))}"
    yield Fact("draft", what, "", "config.json and tensors, or the GGUF file's header")
    yield Fact("tokenizers", tokenizers, "", "texts of all ids that both models have, compared")


def _through_text(target: Checkpoint, draft: Checkpoint, vocab: int) -> Iterator[Fact]:
    bridge = open_bridge(target, draft, vocab=vocab)
    same = "of the draft's tokens; another one counts for the target's longest that it begins with"
    yield Fact("tokens that the target has too", 100 * bridge.shared, "%", same)
    can = f"of {vocab:,}; of the others it proposes those that two of its tokens make, as far as they are likely"
    yield Fact("tokens that the draft says at once", len(bridge.token_ids), "", can)
    count = len(target.tokenizer().encode(SAMPLE, add_special=False))
    ratio = len(bridge.encode(SAMPLE.encode())) / count
    how = f"a sample of {count} tokens; a step runs one token of the draft, and more where a text is encoded anew"
    yield Fact("draft tokens for a target token", round(ratio, 2), "", how)


def _worth(plan: Plan, draft: Checkpoint, relation: Pairing) -> Iterator[Fact]:
    """What a step costs beside a verification, by bytes, and what that may bring."""
    assert plan.draft is not None
    whole = sizes(plan.target.source, plan.target.dtype, hub_cache=folders().get("hub_cache")).streamed_bytes
    step, head = draft_step_bytes(plan, draft, relation)
    yield Fact("draft reads a step", step / GB, "GB", head)
    ratio = step / whole
    yield Fact("draft step / verification", round(ratio, 3), "", "bytes of weights that each reads a pass; a bound")
    best: dict[str, float] = {}
    for acceptance in ACCEPTANCES:
        for mode in ("sd", "ssd"):
            lookahead, speed = promise(mode, ratio, acceptance)
            best[mode] = max(best.get(mode, 0.0), speed)
            how = f"K = {lookahead}: " + (
                "(tokens a round) / (1 + K steps)"
                if mode == "sd"
                else "(tokens a round) / max(1, K + 1 steps), all hits"
            )
            yield Fact(f"{mode.upper()} at most, acceptance {acceptance:.0%}", round(speed, 2), "× AR", how)
    yield Fact(
        "worth trying", _advice(best), "", f"modes that promise {WORTH:g} × AR at {ACCEPTANCES[-1]:.0%} acceptance"
    )


def draft_step_bytes(plan: Plan, draft: Checkpoint, relation: Pairing) -> tuple[int, str]:
    """Bytes of weights that a step of the draft reads, and how they are counted."""
    assert plan.draft is not None
    dtype = plan.draft.dtype
    size = sizes(plan.draft.source, dtype, hub_cache=folders().get("hub_cache"))
    rows = draft.config.head_rows
    kept = dict(plan.config.drafter_options).get("shortlist", SIZE if dtype in ("int8", "int4") else None)
    short = relation.kind in (SAME, PADDED) and not plan.through_text and isinstance(kept, int) and kept < rows
    if not short:
        return size.streamed_bytes, f"{size.streamed:,} weights ({dtype})"
    assert isinstance(kept, int)
    left_out = (rows - kept) * draft.config.hidden
    number = size.streamed - left_out
    return int(number * WEIGHT_BYTES[dtype]), f"{number:,} weights ({dtype}); the head has {kept:,} of {rows:,} rows"


def promise(mode: str, ratio: float, acceptance: float) -> tuple[int, float]:
    """The best lookahead and its speed in units of AR, for draft steps of `ratio` verifications (Theorem 7)."""
    best = (1, 0.0)
    tokens = expected_by_depth([acceptance] * max(LOOKAHEADS))
    for lookahead in LOOKAHEADS:
        seconds = 1 + lookahead * ratio if mode == "sd" else max(1.0, (lookahead + 1) * ratio)
        speed = tokens[lookahead] / seconds
        if speed > best[1]:
            best = (lookahead, speed)
    return best


def _advice(best: dict[str, float]) -> str:
    where = {"sd": "sd (one device is enough)", "ssd": "ssd (with a device for the draft)"}
    found = [where[mode] for mode in ("sd", "ssd") if best[mode] >= WORTH]
    return " and ".join(found) if found else "ar: the draft reads too much for what it can bring"
