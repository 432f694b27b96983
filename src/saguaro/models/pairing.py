"""What a draft is to its target: how their ids relate, and whether the one can read what the other writes.

Read from raw files; no tokenizer is built and no weight is read. Must not know: engines, how text is translated.
Tests: tests/models/test_pairing.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from saguaro.models.checkpoint import Checkpoint
from saguaro.models.vocabulary import Vocabulary, byte_alphabet, compare

SAME, PADDED, OWN_IDS, HEAD, TEXT = "same", "padded", "own_ids", "eagle3", "text"
"""All ids mean the same and there are equally many; the common ones do; the draft's head has some of the target's ids;
an EAGLE-3 head; another tokenizer, so that they understand each other through text alone.
"""
NEEDED = bytes(range(0x20, 0x7F)) + b"\n"
"""Bytes without which a tokenizer cannot write the texts that occur."""


@dataclass(frozen=True)
class Pairing:
    """How the ids of a draft relate to its target's.

    Args:
        kind: one of the five above.
        difference: of TEXT, a sentence that names the first id on which they disagree.
    """

    kind: str
    difference: str = ""


def pairing(target: Checkpoint, draft: Checkpoint) -> Pairing:
    """What `draft` is to `target`."""
    if draft.config.eagle3 is not None:
        return Pairing(HEAD)
    ours, theirs = target.signature(), draft.signature()
    difference = compare(ours, theirs)
    if difference is not None:
        return Pairing(TEXT, difference)
    if draft.config.draft_vocab is not None:
        return Pairing(OWN_IDS)
    return Pairing(SAME if target.config.vocab == draft.config.vocab else PADDED)


def lacking_bytes(vocabulary: Vocabulary) -> bytes:
    """Those of NEEDED for which a vocabulary has no token, in either spelling of single bytes."""
    texts = set(vocabulary.tokens)
    letters = {value: letter for letter, value in byte_alphabet().items()}
    by_letter = bytes(byte for byte in NEEDED if letters[byte] not in texts)
    by_name = bytes(byte for byte in NEEDED if f"<0x{byte:02X}>" not in texts)
    return min(by_letter, by_name, key=len)
