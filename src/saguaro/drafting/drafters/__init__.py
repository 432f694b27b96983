"""Kinds of drafts: a plug point. A dotted path (`package.module:Class`) is accepted wherever a name is."""

from saguaro.registry import Table

DRAFTERS = Table(
    "drafter",
    {
        "lm": "saguaro.drafting.drafters.lm:LanguageModelDrafter",
        "eagle3": "saguaro.drafting.drafters.eagle3:Eagle3Drafter",
        "text": "saguaro.drafting.drafters.text:TextDrafter",
    },
)

__all__ = ["DRAFTERS"]
