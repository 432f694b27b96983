"""Writes short everyday instructions for `saguaro train-draft`: explain, list, write, rewrite, compare, code and so on.

    python scripts/everyday_prompts.py --count 3000 --out everyday.jsonl

Templates times topics, all written for this purpose; which of them, and in which order, depends on the seed alone. No
prompt of a benchmark is among them. JSON Lines with `id` and `prompt`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

from everyday_words import (
    ACTIVITIES,
    CODE_TASKS,
    COUNTRIES,
    FACTS,
    GOALS,
    ITEMS,
    LANGUAGES,
    NAMES,
    OPINIONS,
    PAIRS,
    PASSAGES,
    PERSONAS,
    PLACES,
    PRODUCTS,
    PROGRAMMING,
    SENTENCES,
    SUBJECTS,
    TOPICS,
    WORDS,
)  # fmt: skip

LIMITS = (
    "", "", "", "", "", "", "", " Keep it short.", " Answer in two sentences.", " Use simple words.", " Be concise.",
    " Give an example.", " Answer in one paragraph.", " Explain your reasoning.", " Use a friendly tone.",
)  # fmt: skip
Draw = random.Random


def one(draw: Draw, *templates: str, **fields: tuple[str, ...]) -> str:
    """A template with its fields filled in."""
    return draw.choice(templates).format(**{name: draw.choice(values) for name, values in fields.items()})


def explain(draw: Draw) -> str:
    return (
        one(
            draw,
            "Explain {t}.", "Explain {t} to a child.", "What is {t}?", "What do you know about {t}?",
            "Give a short introduction to {t}.", "Why is {t} important?", "How does {t} work?",
            "Describe {t} in your own words.", "Explain the main ideas behind {t}.", "What are the basics of {t}?",
            "Give an overview of {t}.", "Can you tell me about {t}?", "What are common misunderstandings about {t}?",
            "Explain {t} with an analogy.", "What are the advantages and disadvantages of {t}?",
            "How has {t} changed over time?", "What role does {t} play in everyday life?", "Summarise what {t} means.",
            "Write a paragraph about {t}.", "What effect does {t} have on society?",
            t=TOPICS,
        )
        + draw.choice(LIMITS)
    )  # fmt: skip


def listing(draw: Draw) -> str:
    count = draw.choice(("three", "five", "four", "ten", "some", "six", "several", "seven", "5", "3"))
    return draw.choice((
        "Give me {n} tips for {a}.", "List {n} ways of getting better at {a}.", "Name {n} things to know before {a}.",
        "What are {n} common mistakes in {a}?", "List {n} benefits of {a}.", "Suggest {n} tools that help with {a}.",
        "Generate a list of {n} questions about {t}.", "List {n} facts about {t}.", "Give {n} examples of {i}.",
        "Name {n} {i}.", "Make a list of {n} {i} and describe each in one sentence.", "List {n} reasons to visit {p}.",
        "Come up with {n} names for a {m}.", "Brainstorm {n} ideas for a story about {s}.", "List {n} steps to {g}.",
        "What are {n} interesting {i}?", "Suggest {n} titles for an article about {t}.",
    )).format(
        n=count, a=draw.choice(ACTIVITIES), t=draw.choice(TOPICS), i=draw.choice(ITEMS), p=draw.choice(PLACES),
        s=draw.choice(SUBJECTS), m=draw.choice(PRODUCTS), g=draw.choice(GOALS),
    )  # fmt: skip


def writing(draw: Draw) -> str:
    return (
        one(
            draw,
            "Write a short story about {s}.", "Write a poem about {s}.", "Write a haiku about {s}.",
            "Tell me a story about {s}.", "Write a letter to {n} about {s}.", "Write the opening of a novel about {s}.",
            "Write a dialogue between {r} and {r2}.", "Write a blog post about {a}.", "Write a speech about {t}.",
            "Write an advertisement for a {m}.", "Write a product description for a {m}.", "Write a slogan for a {m}.",
            "Write an email to {n} to ask for help with {a}.", "Write an email inviting {n} to a talk about {t}.",
            "Draft a polite message that cancels a meeting about {t}.", "Write a thank-you note to {n}.",
            "Write a diary entry of {r}.", "Describe {p} to someone who has never been there.",
            "Write a song about {s}.", "Write a riddle about {s}.", "Write a review of a {m}.",
            "Write an essay about {t}.", "Write a news report about {s}.", "Compose a tweet about {t}.",
            "Write a scene in which {r} visits {p}.", "Describe a day in the life of {r}.", "Write an outline on {t}.",
            "Write a cover letter for someone who wants to work as {r}.", "Write a toast for {n}'s birthday.",
            "Write a conversation in which {n} learns about {t}.", "Write a fable about {s}.",
            s=SUBJECTS, n=NAMES, r=PERSONAS, r2=PERSONAS, a=ACTIVITIES, t=TOPICS, m=PRODUCTS, p=PLACES,
        )
        + draw.choice(LIMITS)
    )  # fmt: skip


def rewriting(draw: Draw) -> str:
    how = draw.choice((
        "Rewrite this sentence in a formal tone", "Make this sentence shorter", "Put this sentence into the past tense",
        "Rewrite the sentence in the passive voice", "Make this sentence more vivid", "Turn this into a question",
        "Rewrite this sentence so that a child understands it", "Make this sentence more polite", "Paraphrase this",
        "Put this sentence into the future tense", "Correct the grammar of this sentence if needed",
        "Say the same in other words", "Rewrite the sentence in the first person plural", "Expand this sentence",
        "Find the verb in this sentence", "Name the subject of this sentence", "Is this sentence positive or negative",
        "Add an adjective to this sentence", "Turn this sentence into a headline", "Continue this text",
        "What is the tone of this sentence", "Count the words of this sentence", "Replace one word by a synonym",
    ))  # fmt: skip
    text = draw.choice(SENTENCES)
    return draw.choice((f"{how}: {text}", f'{how}: "{text}"', f"{how}.\n\n{text}", f"{how}.\nInput: {text}"))


def comparing(draw: Draw) -> str:
    first, second = draw.choice(PAIRS)
    return draw.choice((
        "Compare {a} and {b}.", "What is the difference between {a} and {b}?", "Which is better, {a} or {b}?",
        "How are {a} and {b} alike?", "List the pros and cons of {a} and of {b}.", "Contrast {a} with {b}.",
        "Should a beginner choose {a} or {b}?", "Explain when to use {a} and when to use {b}.",
        "Make a table that compares {a} with {b}.",
    )).format(a=first, b=second) + draw.choice(LIMITS)  # fmt: skip


def translating(draw: Draw) -> str:
    text, language = draw.choice(SENTENCES), draw.choice(LANGUAGES)
    return draw.choice((
        f"Translate into {language}: {text}", f'How do you say "{text}" in {language}?',
        f"Translate the following sentence to {language}.\n\n{text}",
        f"What is the {language} word for {draw.choice(WORDS)}?",
    ))  # fmt: skip


def passages(draw: Draw) -> str:
    text = draw.choice(PASSAGES)
    how = draw.choice((
        "Summarise the following text", "Summarise this in one sentence", "What is the main point of this text",
        "Extract the most important facts from this text", "Which people and places does this text name",
        "Give this text a title", "Write three questions about this text", "Rewrite this text in simpler words",
        "List the key points of the following paragraph", "What can we conclude from this passage",
        "Write one more paragraph that continues this text", "Turn this text into bullet points",
        "What happens first and what happens last in this text", "Which words describe a feeling in this text",
    ))  # fmt: skip
    return draw.choice((f"{how}:\n\n{text}", f"{how}.\n\n{text}", f"{text}\n\n{how}."))


def classifying(draw: Draw) -> str:
    words, topic = draw.sample(WORDS, 4), draw.choice(OPINIONS)
    listed = ", ".join(words)
    return draw.choice((
        f"Which of these words does not belong with the others: {listed}?", f"Sort these words by alphabet: {listed}.",
        f"Use the word {words[0]} in a sentence.", f"What does the word {words[0]} mean?", f"Define {words[1]}.",
        f"Give a synonym and an antonym of {words[0]}.", f"Write a sentence that uses these words: {listed}.",
        f"Group these words into two categories: {listed}.", f"Is this review positive or negative? {topic}",
        f"What is the sentiment of the following text?\n\n{topic}", f"Answer this customer: {topic}",
        f"What does this person want? {topic}", f"Find words that rhyme with {words[0]}.",
        f"Write a short story with the words {words[0]}, {words[1]} and {words[2]}.",
        f"Is {words[0]} a noun, a verb or an adjective?", f"What is the plural of {words[2]}?",
    ))  # fmt: skip


def coding(draw: Draw) -> str:
    task, language = draw.choice(CODE_TASKS), draw.choice(PROGRAMMING)
    return draw.choice((
        f"Write a {language} function that {task}.", f"Write a {language} program that {task}.",
        f"Write a function in {language} that {task}, and explain how it works.", f"How can I write code that {task}?",
        f"Write a {language} function that {task}. Add comments.", f"Write Python code that {task}.",
        f"Write a Python function that {task}, with a docstring and an example.",
        f"Give me {language} code that {task}.",
        f"Write a test for a {language} function that {task}.", f"Write a Python class that {task}.",
        f"Describe step by step an algorithm that {task}.", f"Write a Python function that {task}.",
        f"Write a Python function that {task}. What is its running time?",
    ))  # fmt: skip


def counting(draw: Draw) -> str:
    a, b, c = draw.randint(2, 60), draw.randint(2, 30), draw.randint(2, 12)
    name, other = draw.sample(NAMES, 2)
    thing = draw.choice(("apples", "books", "tickets", "cards", "stamps", "eggs", "pencils", "coins", "bottles"))
    return draw.choice((
        f"{name} has {a + b} {thing} and gives {b} of them to {other}. How many are left?",
        f"{name} buys {c} boxes with {a} {thing} each. How many {thing} is that?", f"What is {a} plus {b} times {c}?",
        f"A train travels at {a + 40} km per hour for {c} hours. How far does it go?",
        f"Is {a * 3 + 1} a prime number?",
        f"{name} earns ${a} an hour and works {b} hours a week. How much does {name} earn in {c} weeks?",
        f"Share {a * c} {thing} equally among {c} children. How many does each get?",
        f"What is {c * 5} percent of {a * 10}?",
        f"The sides of a rectangle are {a} cm and {b} cm. What are its area and its perimeter?",
        f"{name} is {c} years older than {other}, who is {a}. How old will {name} be in {b} years?",
        f"Convert {a} kilometres to miles.", f"Convert {a} degrees Celsius to Fahrenheit.",
        f"Solve {c}x + {b} = {a + b}.",
        f"A shirt costs ${a + 10} and is {c * 5} percent off. What is the price now?",
        f"Round {a}.{b}{c} to one decimal.",
        f"{name} reads {c} pages a day. How many days does a book of {a * c} pages take?",
        f"Add these numbers: {a}, {b}, {c}.",
        f"What comes next: {c}, {c * 2}, {c * 4}, {c * 8}?", f"Find the mean of {a}, {b} and {c}. Show each step.",
    ))  # fmt: skip


def asking(draw: Draw) -> str:
    return (
        one(
            draw,
            "How do I {g}?", "What is the best way to {g}?", "I want to {g}. Where should I start?",
            "Help me plan how to {g}.", "What do I need in order to {g}?", "Write instructions that show how to {g}.",
            "How long does it take to {g}?", "My friend {n} wants to {g}. What advice would you give?",
            "What should I avoid when I {g}?", "Create a plan for one week to {g}.",
            "Describe how to {g} step by step.",
            "What is the capital of {c}?", "Tell me about the food of {c}.", "Which language is spoken in {c}?",
            "Describe the geography of {c}.", "What is {c} known for?", "What is the weather like in {c}?", "{f}",
            "{f}", "{f}", "{f}", "What should I see in {p}?", "Plan a trip of three days to {p}.",
            "Recommend a book about {t}.", "What would you ask an expert on {t}?", "Who uses {t}, and why?",
            g=GOALS, n=NAMES, c=COUNTRIES, f=FACTS, p=PLACES, t=TOPICS,
        )
        + draw.choice(LIMITS)
    )  # fmt: skip


def playing(draw: Draw) -> str:
    return one(
        draw,
        "Imagine you are {r}. Describe your day.", "You are {r}. Explain {t} to me.",
        "Act as {r} and answer: how do I {g}?",
        "Pretend to be {r} who meets {r2}. What do you say?", "Imagine a world without {t}. What would change?",
        "If you were {r}, what would you do first?", "You are {r}. Give advice to someone who wants to {g}.",
        "As {r}, write a short note to {n}.", "Interview {r} about {t}.", "What would {r} think about {t}?",
        "Suppose {n} has lost interest in {a}. What would you say?", "Invent a game about {s}. What are its rules?",
        "Tell a joke about {r}.", "Convince {n} to try {a}.", "Argue for and against {t}.",
        r=PERSONAS, r2=PERSONAS, t=TOPICS, g=GOALS, n=NAMES, a=ACTIVITIES, s=SUBJECTS,
    )  # fmt: skip


KINDS: tuple[tuple[int, Callable[[Draw], str]], ...] = (
    (20, explain), (14, listing), (14, writing), (8, rewriting), (6, comparing), (2, translating), (6, passages),
    (7, classifying), (12, coding), (6, counting), (14, asking), (7, playing),
)  # fmt: skip


def prompts(count: int, seed: int) -> list[str]:
    """So many different prompts, the first ones the same for every count."""
    draw, found = random.Random(seed), dict[str, None]()
    weights, kinds = zip(*KINDS, strict=True)
    while len(found) < count:
        found.setdefault(draw.choices(kinds, weights)[0](draw))
    return list(found)


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description="Short everyday instructions, made from templates and topics.")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file (default: standard output)")
    options = parser.parse_args()
    made = prompts(options.count, options.seed)
    lines = [json.dumps({"id": f"everyday-{i}", "prompt": text}, ensure_ascii=False) for i, text in enumerate(made)]
    text = "".join(line + "\n" for line in lines)
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
