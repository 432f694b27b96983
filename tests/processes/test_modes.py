"""`auto` with real processes: gears are measured, and changing them by hand between rounds changes no token."""

from __future__ import annotations

import pytest
from tests.lossless.conftest import PROMPTS, opened, params

from saguaro.device import allowed_cores
from saguaro.errors import ConfigError

AUTO = {"target_device": "cpu:0", "draft_device": "cpu:1"}


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="needs two cores")
def test_gears_of_a_draft_in_its_own_process() -> None:
    with opened("ar", "float32", "loopback") as llm:
        [alone] = llm.generate(PROMPTS[:1], params(0.0, max_tokens=100))
    with opened("auto", "float32", "processes", **AUTO) as llm:
        found = llm.statistics()
        assert set(found["measured"]) == {
            "verify_seconds", "verify_alone_seconds", "draft_step_seconds", "draft_step_alone_seconds",
        }  # fmt: skip
        assert found["plan"]["gears"] == ["ar", "sd", "ssd"]
        assert "as given" in found["plan"]["why"]
        modes = iter(("ssd", "sd", "ar", "ssd", "auto"))
        llm.configure(mode=next(modes))
        tokens: list[int] = []
        seen: set[str] = set()
        for delta in llm.stream(PROMPTS[0], params(0.0, max_tokens=100)):
            before, tokens = len(tokens), [*tokens, *delta.token_ids]
            if before // 20 < len(tokens) // 20 < 5:
                seen.add(llm.statistics()["gears"]["gear"])
                llm.configure(mode=next(modes))
        assert tokens == alone.token_ids
        assert seen == {"ar", "sd", "ssd"}
        with pytest.raises(ConfigError, match="not to 'sdd': modes are"):
            llm.configure(mode="sdd")
