import pytest

from saguaro.planner.question import Question, Traffic, published_laws
from saguaro.simulate.hardware import open_hardware
from saguaro.simulate.shapes import PRESETS


@pytest.fixture
def question() -> Question:
    """Llama 70B with 1B on four H100 and one."""
    return Question(
        PRESETS["llama-3.1-70b"], PRESETS["llama-3.2-1b"], open_hardware("h100"), 4, 1, Traffic(),
        published_laws(0.0, 0.87), dollars=3.0,
    )  # fmt: skip
