"""What comes over HTTP is what the target alone gives for the seed: whole and streamed, alone and many at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.conftest import events, served

from saguaro import LLM, SamplingParams

PROMPTS = ["def f(x):", "The sun", "12345", "a"]


def prompt_of(seed: int) -> str:
    return PROMPTS[seed % len(PROMPTS)]


@pytest.fixture(scope="module")
def wanted(alone: LLM) -> dict[int, str]:
    prompts = [prompt_of(seed) for seed in range(16)]
    params = [SamplingParams(temperature=0.9, max_tokens=24, seed=seed) for seed in range(16)]
    return {seed: found.text for seed, found in enumerate(alone.generate(prompts, params))}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("at_once", [1, 16])
def test_text_is_the_targets(llm_of_mode, wanted, stream, at_once):
    server = served(llm_of_mode)

    async def scene(client):
        turns = asyncio.Semaphore(at_once)

        async def ask(seed):
            body = {"prompt": prompt_of(seed), "temperature": 0.9, "max_tokens": 24, "seed": seed, "stream": stream}
            async with turns:
                found = await client.post("/v1/completions", json=body)
            if not stream:
                return found.json()["choices"][0]["text"]
            return "".join(chunk["choices"][0]["text"] for chunk in events(found.text)[:-1])

        return await asyncio.gather(*(ask(seed) for seed in wanted))

    assert server.run(scene) == list(wanted.values())


def test_a_chat_is_the_rendered_prompt(llm_of_mode, alone):
    server = served(llm_of_mode)
    messages = [{"role": "user", "content": "hi"}]
    whole = alone.chat(messages, SamplingParams(temperature=0.7, max_tokens=20, seed=4))
    body = {"messages": messages, "temperature": 0.7, "max_tokens": 20, "seed": 4}
    assert server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"] == whole.text
