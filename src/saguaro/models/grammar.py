"""Grammars of structured output: which ids may come after a text, by the library `llguidance`.

A grammar travels as one text (`grammar_text`), and each process compiles it over its own copy of the target's
vocabulary (`Grammars`). A `Follower` keeps the state of one row: committed tokens advance it once and for all, and a
short tail behind them (a proposal, a branch) is walked and rolled back, so that a mask costs the tokens that are new.

What may come is a function of the committed tokens and the tail alone. Where the grammar allows one text only, the mask
holds the one id with which the tokenizer itself would write it. Ends are ours: the library sees a made-up end token,
and the ids that end the request are allowed where the text is complete. The library is imported when the first grammar
is compiled. Shapes: V vocabulary. Must not know: models, rounds, proposals. Tests: tests/models/test_grammar.py.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from saguaro.errors import RequestRefused
from saguaro.models.checkpoint import Checkpoint
from saguaro.models.tokenizer import TextCodec
from saguaro.request import SamplingParams

if TYPE_CHECKING:
    import torch
    from llguidance import LLMatcher, LLTokenizer

    from saguaro.algorithm.options import Sampling

MOST_FORCED = 16
"""Tokens of a forced proposal at most: what an entry of the mailbox and a proposal hold."""
MOST_BYTES = 1 << 18
"""Of a grammar: it must fit into the channel beside the longest prompt."""
KEPT_GRAMMARS, KEPT_MASKS = 32, 64
JSON_FORM: Any = {"whitespace_flexible": False}
"""No white space between the parts of JSON, unless the schema says so in `x-guidance`: every choice of white space is a
token that nothing forces, and small models may never leave it.
"""


def grammar_text(params: SamplingParams) -> str:
    """The grammar that a request asks for, as `llguidance` reads it; empty without one.

    Raises:
        RequestRefused: the schema is no JSON, or the text is too long to travel.
    """
    from llguidance import LLMatcher

    if params.json_object:
        text = LLMatcher.grammar_from_json_schema({"type": "object"}, defaults=JSON_FORM)
    elif params.json_schema is not None:
        schema = json.loads(str(params.json_schema))
        if isinstance(schema, bool):
            schema = {} if schema else {"not": {}}
        text = LLMatcher.grammar_from_json_schema(schema, defaults=JSON_FORM)
    elif params.regex is not None:
        text = LLMatcher.grammar_from_regex(params.regex)
    elif params.grammar is not None:
        text = LLMatcher.grammar_from_lark(params.grammar)
    else:
        return ""
    if len(text.encode("utf-8", errors="replace")) > MOST_BYTES:
        raise RequestRefused(f"the grammar is longer than {MOST_BYTES >> 10} KiB; make it shorter.")
    return text


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may come at one position.

    `banned_V` is true for ids that may not. `only` is the id when there is just one. `over`: the text is complete,
    nothing can follow it, and the request has no id that would say so.
    """

    banned_V: torch.Tensor
    only: int | None
    over: bool


class Grammars:
    """Compiles grammars over one vocabulary and keeps the last ones.

    Args:
        open_tokenizer: gives the target's tokenizer; called when the first grammar comes.
        vocab: V, the width of the target's logits.
        stop_ids: the model's own ends.
    """

    def __init__(self, open_tokenizer: Callable[[], TextCodec], vocab: int, stop_ids: Iterable[int]) -> None:
        self._open_tokenizer = open_tokenizer
        self.vocab = vocab
        self._stop_ids = frozenset(stop_ids)
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()

    @classmethod
    def of(cls, checkpoint: Checkpoint, vocab: int) -> Grammars:
        """Over the vocabulary of a checkpoint; its tokenizer is built when the first grammar comes."""
        return cls(checkpoint.tokenizer, vocab, checkpoint.config.stop_ids)

    def compile(self, text: str) -> LLMatcher:
        """The state before the first token; to be copied before use.

        Raises:
            RequestRefused: with the library's reason.
        """
        found = self._compiled.get(text)
        if found is None:
            from llguidance import LLMatcher

            found = LLMatcher(self._vocabulary, text, log_level=0)
            if found.is_error():
                raise RequestRefused(f"the grammar cannot be used: {_one_line(found.get_error())}.")
            self._compiled[text] = found
            if len(self._compiled) > KEPT_GRAMMARS:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(text)
        return found

    def follow(self, sampling: Sampling, output: Sequence[int] = ()) -> Follower | None:
        """The state of a row that has generated `output`; None when the request has no grammar.

        Raises:
            RequestRefused: as `compile`.
        """
        if not sampling.grammar:
            return None
        ends = frozenset(sampling.stop_ids) & self._wordless
        follower = Follower(self.compile(sampling.grammar).deep_copy(), ends, self.vocab)
        follower.commit(output)
        return follower

    @cached_property
    def _tokenizer(self) -> TextCodec:
        return self._open_tokenizer()

    @cached_property
    def _wordless(self) -> frozenset[int]:
        """Ids that stand for no text: special ones, and the model's own ends."""
        return self._tokenizer.special_ids | self._tokenizer.stop_ids | self._stop_ids

    @cached_property
    def _vocabulary(self) -> LLTokenizer:
        from llguidance import LLTokenizer, TokenizerWrapper

        spelling = Spelling(self._tokenizer, self.vocab, self._wordless)
        return LLTokenizer(TokenizerWrapper(spelling), n_vocab=self.vocab + 1, eos_token=spelling.eos_token_id)


class Spelling:
    """A vocabulary as the library wants it: bytes of all ids, and how the tokenizer would write bytes.

    The library trusts what it is told, so what the tokenizer gives is checked against the bytes: some normalise text,
    and those of toys fold it. Other bytes are written by the longest token that fits, again and again.
    """

    bos_token_id = None

    def __init__(self, tokenizer: TextCodec, vocab: int, wordless: frozenset[int]) -> None:
        self.eos_token_id = vocab  # made up, so that no id of the model has a meaning of its own
        self.special_token_ids = sorted({token for token in wordless if token < vocab} | {vocab})
        self.tokens = [tokenizer.token_bytes(token) for token in range(vocab)] + [b"<|the end|>"]
        self._wordless = wordless
        self._tokenizer = tokenizer

    def __call__(self, raw: bytes) -> list[int]:
        """Ids whose bytes are `raw`; where no id fits, the made-up end, which no text matches."""
        try:
            ids = self._tokenizer.encode(raw.decode("utf-8"), add_special=False)
        except (UnicodeDecodeError, RequestRefused):
            return self._longest(raw)
        fine = not self._wordless.intersection(ids) and all(0 <= token < self.eos_token_id for token in ids)
        return ids if fine and b"".join(self.tokens[token] for token in ids) == raw else self._longest(raw)

    def _longest(self, raw: bytes) -> list[int]:
        by_bytes, longest = self._by_bytes
        ids: list[int] = []
        at = 0
        while at < len(raw):
            fitting = (end for end in range(min(len(raw), at + longest), at, -1) if raw[at:end] in by_bytes)
            end = next(fitting, 0)
            if not end:
                return [*ids, self.eos_token_id]
            ids.append(by_bytes[raw[at:end]])
            at = end
        return ids

    @cached_property
    def _by_bytes(self) -> tuple[dict[bytes, int], int]:
        """The lowest id of each piece of text, and the length of the longest piece."""
        known: dict[bytes, int] = {}
        for token, piece in enumerate(self.tokens[:-1]):
            if piece and token not in self._wordless:
                known.setdefault(piece, token)
        return known, max(map(len, known), default=0)


class Follower:
    """Where one row stands in its grammar.

    `error` says why the library gave up, if it did; nothing is masked from then on.
    """

    def __init__(self, matcher: LLMatcher, ends: frozenset[int], vocab: int) -> None:
        self._matcher: Any = matcher
        self._ends = ends
        self._ends_n = sorted(ends)
        self._vocab = vocab
        self._tail: list[int] = []
        self._left = False
        self._masks: dict[tuple[int, ...], Allowed] = {}
        self.error = ""

    def commit(self, tokens: Sequence[int]) -> None:
        """Tokens were added to the output for good. After an end, or a token that may not come, nothing is masked."""
        for token in tokens:
            if self._tail[:1] == [token]:
                del self._tail[0]
            elif not self._left:
                self._left = not self._walk((token,))
                self._tail = []
        gone = tuple(tokens)
        kept = {key[len(gone) :]: mask for key, mask in self._masks.items() if key[: len(gone)] == gone}
        self._masks = kept

    def allowed(self, tail: Sequence[int] = ()) -> Allowed | None:
        """What may come after the committed tokens and `tail`; None when anything may: behind an end, behind a token
        that may not come, and when the text is over.
        """
        mask = self._mask(tail)
        return None if mask is None or mask.over else mask

    def forced(self, tail: Sequence[int] = (), most: int = MOST_FORCED) -> tuple[int, ...]:
        """The ids that must come next, one after the other, at most `most`; an end is the last."""
        found: list[int] = []
        while len(found) < most and not self._ends.intersection(found[-1:]):
            mask = self.allowed((*tail, *found))
            if mask is None or mask.only is None:
                break
            found.append(mask.only)
        return tuple(found)

    @property
    def over(self) -> bool:
        """Whether the output is complete and nothing, not even an end, can follow."""
        mask = None if self._ends else self._mask(())
        return mask is not None and mask.over

    def _mask(self, tail: Sequence[int]) -> Allowed | None:
        if self._left or self.error:
            return None
        key = tuple(tail)
        mask = self._masks.get(key)
        if mask is None and self._walk(key):
            if len(self._masks) >= KEPT_MASKS:
                self._masks.clear()
            mask = self._compute()
            if mask is not None:
                self._masks[key] = mask
        return mask

    def _walk(self, tail: Sequence[int]) -> bool:
        """Stand behind `tail`; False when it holds an end or a token that may not come."""
        same = 0
        while same < min(len(tail), len(self._tail)) and tail[same] == self._tail[same]:
            same += 1
        if same < len(self._tail):
            if not self._matcher.rollback(len(self._tail) - same):
                self.error = _one_line(self._matcher.get_error()) or "tokens could not be taken back"
                return False
            del self._tail[same:]
        for token in tail[same:]:
            if token in self._ends or not 0 <= token < self._vocab or not self._matcher.try_consume_tokens([token]):
                return False
            self._tail.append(token)
        return True

    def _compute(self) -> Allowed | None:
        import torch  # late, so that a grammar can be refused without it

        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error():
            self.error = _one_line(self._matcher.get_error())
            return None
        may_V = np.unpackbits(bits, count=self._vocab, bitorder="little").view(np.bool_)
        complete = self._matcher.is_accepting()
        if complete:
            may_V[self._ends_n] = True
        count = int(np.count_nonzero(may_V))
        only = int(may_V.argmax()) if count == 1 else None
        return Allowed(torch.from_numpy(~may_V), only, complete and not count)


def _one_line(text: str) -> str:
    """A message of the library as the end of a sentence."""
    return " ".join(text.split()).rstrip(".")[:500]
