from dataclasses import replace

import pytest

from saguaro.errors import ConfigError
from saguaro.planner.question import Laws, Traffic, published_laws
from saguaro.simulate.shapes import PRESETS
from saguaro.theory.evidence import Evidence
from saguaro.theory.fan_out import PowerLaw


def test_memory_counts_weights_and_all_requests(question):
    many = replace(question, traffic=Traffic(batch=64, prompt=2048, output=1024))
    added = many.need(many.target, "bfloat16") - question.need(question.target, "bfloat16")
    assert added == (64 * 3072 - 1024) * question.target.kv_bytes_per_token()
    assert question.fits(question.target, "bfloat16", 4)
    assert not question.fits(question.target, "bfloat16", 1)
    assert question.fits(question.target, "int4", 1)


def test_fewer_rejections_and_misses():
    laws = Laws(0.8, PowerLaw(0.5, 0.5), PowerLaw(0.6, 0.5), "given")
    better = laws.changed(rejections=0.5, misses=0.5)
    assert better.acceptance == pytest.approx(0.9)
    assert better.drafted.after_rejection[3] == pytest.approx(1 - 0.25 * 3**-0.5)
    own = Evidence(0.7, (0.8, 0.6), (0.0, 0.5), (0.0, 0.9))
    other = Evidence(0.0, (), (0.0, 0.4), (0.0, 0.4))
    changed = replace(laws, measured=(own, other)).changed(rejections=0.5, misses=0.5)
    short = Evidence(0.9, (0.9,), (0.0, 0.5), (0.0, 0.9))
    each = replace(laws, measured=(own, other), by_lookahead=((1, short),))
    assert (each.drafted_at(1), each.drafted_at(2)) == (short, own)
    assert each.changed(rejections=0.5).drafted_at(1).rate == pytest.approx(0.95)
    assert each.pair(1).evidence("hit") == short
    assert changed.drafted == Evidence(0.85, (0.9, 0.8), (0.0, 0.75), (0.0, 0.95))
    assert changed.empty == Evidence(0.0, (), (0.0, 0.7), (0.0, 0.7))


def test_the_nearest_published_temperature():
    assert "temperature 0.7" in published_laws(0.6, 0.8).source
    assert published_laws(1.0, 0.8).rejection.c > published_laws(0.0, 0.8).rejection.c


def test_factors_scale_passes(question):
    plain, slow = question.costs(4, 1), replace(question, verify_factor=2.0, draft_factor=0.5).costs(4, 1)
    assert slow.verify(8) == pytest.approx(2 * plain.verify(8))
    assert slow.step(8) == pytest.approx(0.5 * plain.step(8))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda q: replace(q, draft=PRESETS["qwen3-0.6b"]), "share the target's vocabulary"),
        (lambda q: replace(q, target_devices=0), "one device or more"),
        (lambda q: replace(q, laws=replace(q.laws, acceptance=1.2)), "0 ... 1"),
        (lambda q: replace(q, traffic=Traffic(batch=0)), "1 or more"),
    ],
)
def test_what_makes_no_sense(question, make, said):
    with pytest.raises(ConfigError, match=said):
        make(question)
