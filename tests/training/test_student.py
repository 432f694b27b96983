"""The trainable decoder computes what the decoder computes, for every family, with several texts in a row."""

import pytest
import torch

from saguaro.errors import ConfigError
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.training.laws import Reader
from saguaro.training.settings import TrainSettings, default_layers
from saguaro.training.start import check_start, student_config, student_tensors
from saguaro.training.student import Student
from saguaro.training.texts import Text

SIZES = "seed=3&vocab=40&layers=3&hidden=32&ffn=48&heads=4&kv_heads=2"
FAMILIES = [f"toy:{name}?{SIZES}&tied={tied}" for name in ("llama", "qwen2", "qwen3") for tied in (0, 1)]


def student_of(source, layers, **options) -> Student:
    checkpoint = open_checkpoint(source)
    config = student_config(checkpoint.config, checkpoint.config, layers, draft_vocab=None)
    return Student(config, student_tensors(checkpoint, layers), **options)


def logits_of(student, texts) -> list[torch.Tensor]:
    """Logits of texts that lie in one row, behind them some padding."""
    tokens = torch.tensor([[token for text in texts for token in text] + [7, 7]])
    positions = torch.tensor([[place for text in texts for place in range(len(text))] + [0, 0]])
    numbers = torch.tensor([[number for number, text in enumerate(texts) for _ in text] + [-1, -1]])
    with torch.no_grad():
        logits = student.logits(student(tokens, positions, numbers)[0])
    return list(logits[:-2].split([len(text) for text in texts]))


@pytest.mark.parametrize("source", FAMILIES)
def test_logits_equal_the_decoder(source):
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, 40, (size,), generator=generator).tolist() for size in (9, 17, 1)]
    reader = Reader(build_model(open_checkpoint(source), make_ops("torch", "float32")))
    for text, found in zip(texts, logits_of(student_of(source, (0, 1, 2)), texts), strict=True):
        expected = reader.logits(Text((*text, 0), 1))
        assert expected.std() > 0.5, "flat logits would agree with anything"
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_texts_of_a_row_do_not_see_one_another():
    student = student_of(FAMILIES[0], (0, 1, 2))
    alone = logits_of(student, [[4, 5, 6]])[0]
    behind = logits_of(student, [[9, 9, 9, 9], [4, 5, 6]])[1]
    torch.testing.assert_close(behind, alone, rtol=0, atol=1e-5)
    assert (logits_of(student, [[9, 4, 5, 6]])[0][1:] - alone).abs().max() > 0.1


def test_bfloat16_products_are_near():
    exact = logits_of(student_of(FAMILIES[0], (0, 1, 2)), [[1, 2, 3, 4]])[0]
    rounded = logits_of(student_of(FAMILIES[0], (0, 1, 2), compute=torch.bfloat16), [[1, 2, 3, 4]])[0]
    assert 0 < (exact - rounded).abs().max() < 0.1 * exact.abs().max()


def test_chosen_layers_keep_their_order():
    source = open_checkpoint(FAMILIES[0])
    tensors = student_tensors(source, (2, 0))
    for new, old in ((0, 2), (1, 0)):
        name = "self_attn.q_proj.weight"
        expected = source.weights().get(f"model.layers.{old}.{name}")
        assert torch.equal(tensors[f"model.layers.{new}.{name}"], expected)
    assert len(tensors) == 2 * 9 + 3


def test_what_learns():
    names = {which: set(student_of(FAMILIES[0], (0,), trained=which).trained()) for which in ("layers", "head", "all")}
    assert names["head"] - names["layers"] == {"lm_head.weight"}
    assert names["all"] - names["head"] == {"model.embed_tokens.weight"}


@pytest.mark.parametrize(("count", "layers"), [(30, (0, 1, 28, 29)), (7, (0, 1, 6)), (2, (0,)), (1, (0,))])
def test_default_layers_are_the_first_and_the_last(count, layers):
    assert default_layers(count) == layers


@pytest.mark.parametrize(
    ("source", "settings", "words"),
    [
        (FAMILIES[0], {"layers": (0, 3)}, "no layer 3"),
        (FAMILIES[0], {"draft_vocab": 40}, "no reduction"),
        (FAMILIES[1], {"trained": "head"}, "the head is the embedding"),
        ("toy:markov?vocab=40", {}, "--from"),
        ("toy:llama?vocab=300", {}, "tokenizers differ"),
    ],
)
def test_refusals(source, settings, words):
    with pytest.raises(ConfigError, match=words):
        check_start(open_checkpoint(FAMILIES[0]), open_checkpoint(source), TrainSettings(**settings))
