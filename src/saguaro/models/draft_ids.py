"""A draft's own vocabulary as its checkpoint stores it: `d2t`, one whole number a row of the head.

Target id = row + d2t[row] (offsets, not ids). `t2d`, the same as a mask over the target's ids, says nothing more and
is not read. Must not know: files, heads. Tests: tests/models/test_draft_ids.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.errors import WeightsError


def target_ids(offsets: Sequence[int], *, vocab: int, where: str) -> list[int]:
    """Target id of each row.

    Args:
        offsets: the content of `d2t`.
        vocab: ids that exist.
        where: the checkpoint, for messages.

    Raises:
        WeightsError: an id that does not exist, or two rows for one id.
    """
    ids = [row + offset for row, offset in enumerate(offsets)]
    outside = next((row for row, token in enumerate(ids) if not 0 <= token < vocab), None)
    if outside is not None:
        raise WeightsError(
            f"d2t of {where} leads row {outside} to token {ids[outside]}, and there are {vocab} tokens; "
            "it holds offsets, target id = row + d2t[row]."
        )
    if len(set(ids)) < len(ids):
        raise WeightsError(f"d2t of {where} leads two rows to one token; it holds offsets, target id = row + d2t[row].")
    return ids
