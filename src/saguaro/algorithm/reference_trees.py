"""Speculative decoding with proposal trees, executed for one sequence over two functions from a prefix to logits: the
oracle of `proposal_tree.py` and `verify_tree.py`.

A tree is a table from a path (the tokens after the prefix) to what follows it. The best tree is found by looking at
every path that there is, and siblings are verified by the definition of a draw without replacement, so it is for small
vocabularies. It has laws of its own, and shares the hash of the noise and the keyed draws with the rest.
Must not know: proposal_tree.py, verify_tree.py, sampling.py. Tests: tests/algorithm/test_reference_trees.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from saguaro.algorithm.noise import gumbel, row_key
from saguaro.algorithm.reference import KeyedDraws, Logits
from saguaro.algorithm.terms import Outcome
from saguaro.errors import ConfigError

Path = tuple[int, ...]


@dataclass(frozen=True)
class TreeOptions:
    """What a run depends on.

    Args:
        nodes: of a tree with certain children, at most: those that are likeliest to be reached by the draft's odds.
        levels: tokens of a path, at most.
        drawn: instead of a tree of so many nodes: how many children a node has by its depth, drawn from the draft's
            law without replacement. For `rejection` only.
        verification: `shared_noise` or `rejection`.
    """

    nodes: int = 0
    levels: int = 1
    drawn: tuple[int, ...] = ()
    verification: str = "shared_noise"
    temperature: float = 1.0
    seed: int = 0
    max_tokens: int = 8

    def __post_init__(self) -> None:
        if self.verification not in ("shared_noise", "rejection"):
            raise ConfigError("the reference of trees knows shared_noise and rejection.")
        if self.drawn and self.verification != "rejection":
            raise ConfigError("children are drawn under rejection only.")


@dataclass
class Tree:
    """The children of each path, in order, and the law that they were drawn from where they were drawn."""

    children: dict[Path, list[int]] = field(default_factory=dict)
    laws: dict[Path, np.ndarray] = field(default_factory=dict)


def decode(
    target_logits: Logits,
    draft_logits: Logits,
    prompt: Sequence[int],
    *,
    options: TreeOptions,
    draws: KeyedDraws | None = None,
) -> list[int]:
    """`max_tokens` tokens after the prompt, by rounds of growing a tree and verifying it.

    Args:
        target_logits: prefix to V logits.
        draft_logits: the same for the draft.
        prompt: at least one token.
        options: everything else that the result depends on.
        draws: replaces the keyed draws of `rejection`.
    """
    run = _Run(target_logits, draft_logits, options, draws or KeyedDraws(options.seed, 0))
    prefix, round_number = list(prompt), 0
    while len(prefix) < len(prompt) + options.max_tokens:
        tree = run.draw_tree(prefix, round_number) if options.drawn else run.best_tree(prefix)
        prefix += run.verify(prefix, tree, round_number)
        round_number += 1
    return prefix[len(prompt) :][: options.max_tokens]


class _Run:
    def __init__(self, target: Logits, draft: Logits, options: TreeOptions, draws: KeyedDraws) -> None:
        self._target, self._draft, self._options, self._draws = target, draft, options, draws
        self._shared = options.verification == "shared_noise"

    def best_tree(self, prefix: list[int]) -> Tree:
        """Of all paths, those that the draft thinks to be reached most likely."""
        odds: dict[Path, np.ndarray] = {}
        reach: dict[Path, float] = {(): 1.0}
        vocab = len(_array(self._draft(prefix)))
        for length in range(1, self._options.levels + 1):
            for path in itertools.product(range(vocab), repeat=length):
                parent = path[:-1]
                if parent not in odds:
                    odds[parent] = self._odds([*prefix, *parent])
                reach[path] = reach[parent] * float(odds[parent][path[-1]])
        order = sorted((path for path in reach if path), key=lambda path: (-reach[path], len(path)))
        tree = Tree()
        for path in order[: self._options.nodes]:
            tree.children.setdefault(path[:-1], []).append(path[-1])
        return tree

    def draw_tree(self, prefix: list[int], round_number: int) -> Tree:
        """A fixed number of children of each node, drawn without replacement."""
        tree, paths, numbers = Tree(), [()], itertools.count()
        for count in self._options.drawn:
            below: list[Path] = []
            for path in paths:
                here = [*prefix, *path]
                q_V = self._law(self._draft, here)
                drawn: list[int] = []
                while len(drawn) < min(count, int((q_V > 0).sum())):
                    key = Outcome(next(numbers), len(drawn))
                    drawn.append(
                        self._draws.pick(
                            _without(q_V, drawn),
                            position=len(here),
                            round_number=round_number,
                            branch=key,
                            purpose="draft",
                        )
                    )
                tree.children[path], tree.laws[path] = drawn, q_V
                below += [(*path, token) for token in drawn]
            paths = below  # type: ignore[assignment]
        return tree

    def verify(self, prefix: list[int], tree: Tree, round_number: int) -> list[int]:
        """The accepted path and the bonus token."""
        path: Path = ()
        numbers = itertools.count()
        while True:
            here = [*prefix, *path]
            children = tree.children.get(path, [])
            if self._shared:
                own = int(np.argmax(self._noisy(self._target, here)))
                if own not in children:
                    return [*path, own]
                path = (*path, own)
                continue
            left_V, failed = self._law(self._target, here), list[int]()
            for token in children:
                q_V = _without(tree.laws[path], failed) if path in tree.laws else np.eye(len(left_V))[token]
                key = Outcome(next(numbers), token)
                if self._draws.accepts(
                    float(left_V[token]), float(q_V[token]),
                    position=len(here), round_number=round_number, branch=key, purpose="accept",
                ):  # fmt: skip
                    path = (*path, token)
                    break
                failed.append(token)
                left_V = np.maximum(left_V - q_V, 0)
                left_V /= left_V.sum()
            else:
                key = Outcome(next(numbers), 0)
                bonus = self._draws.pick(
                    left_V, position=len(here), round_number=round_number, branch=key, purpose="residual"
                )
                return [*path, bonus]

    def _odds(self, prefix: list[int]) -> np.ndarray:
        """How likely each token is the target's, as the draft sees it: it knows the noise where that is shared."""
        scores_V = self._noisy(self._draft, prefix) if self._shared else _array(self._draft(prefix))
        odds_V: np.ndarray = np.exp(scores_V - scores_V.max())
        return odds_V / odds_V.sum()

    def _noisy(self, model: Logits, prefix: list[int]) -> np.ndarray:
        scores_V = _array(model(prefix))
        if self._options.temperature == 0:
            return scores_V
        noise_V = gumbel(row_key(self._options.seed, 0, len(prefix)), len(scores_V)).double().numpy()
        return (scores_V - scores_V.max()) / self._options.temperature + noise_V

    def _law(self, model: Logits, prefix: list[int]) -> np.ndarray:
        scores_V = _array(model(prefix))
        if self._options.temperature == 0:
            return np.eye(len(scores_V))[int(np.argmax(scores_V))]
        p_V: np.ndarray = np.exp((scores_V - scores_V.max()) / self._options.temperature)
        return p_V / p_V.sum()


def _without(q_V: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
    """q given that the token is none of these."""
    left_V = q_V.copy()
    left_V[list(tokens)] = 0
    mass = math.fsum(left_V)
    return left_V / mass if mass > 0 else left_V


def _array(logits: object) -> np.ndarray:
    """The logits as a fresh array of float64."""
    if isinstance(logits, torch.Tensor):
        logits = logits.detach().numpy()
    return np.array(logits, dtype=np.float64)
