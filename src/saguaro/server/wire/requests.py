"""What clients send. A field that is not here is refused by name; null counts as absent.

These models are the table of what is honoured: docs/api.md and the OpenAPI schema are made from them. Fields marked
`INERT` are taken and change nothing. Must not know: engines, how fields are carried out (`translate.py`).
Tests: tests/server/test_requests.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

INERT: dict[str, Any] = {"effect": "none"}
"""Marks fields that clients send out of habit and that have no meaning here."""
NO_EFFECT = "Taken; it has no effect here."


class Wire(BaseModel):
    """Types are taken as they are (`"1"` is no number), unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(Wire):
    """How a stream ends."""

    include_usage: bool | None = Field(None, description="Send a last chunk with the usage and no choices.")
    each_token: bool | None = Field(None, description="A chunk for the text of each token, instead of each round.")
    include_obfuscation: bool | None = Field(None, description=NO_EFFECT, json_schema_extra=INERT)


class Extension(Wire):
    """What this server tells beyond the API, where it is asked to."""

    rounds: bool | None = Field(None, description="A record of each round, with its tokens and where they came from.")


class TextFormat(Wire):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(Wire):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(Wire):
    """A JSON schema with a name."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool | None = Field(None, alias="schema")
    strict: bool | None = None


class JsonSchemaFormat(Wire):
    """JSON that fits a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class FunctionDefinition(Wire):
    """A function that the model may call."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Wire):
    """A tool; functions only."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(Wire):
    """Names one function."""

    name: str


class NamedTool(Wire):
    """The one tool that must be called."""

    type: Literal["function"]
    function: FunctionName


class Message(BaseModel):
    """One message. Keys that are not named here go to the model's chat template as they are."""

    model_config = ConfigDict(extra="allow", strict=True)

    role: str = Field(description="`system`, `developer`, `user`, `assistant` or `tool`.")
    content: str | list[dict[str, Any]] | None = Field(None, description="Text, or parts of type `text`.")
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class Generation(Wire):
    """Fields of both chat and text completions."""

    model: str | None = Field(None, description="A served name; absent is the one that is served.")
    stream: bool | None = Field(None, description="Send the answer piece by piece (server-sent events).")
    stream_options: StreamOptions | None = Field(None, description="`include_usage`, `each_token`; with `stream` only.")
    temperature: float | None = Field(None, description="0 is greedy; default 1.")
    top_p: float | None = Field(None, description="Keep the smallest set of tokens with this probability.")
    n: int | None = Field(None, description="Choices of each prompt; choice 0 is what `n` = 1 gives.")
    seed: int | None = Field(None, description="Key of the noise: the same seed gives the same text.")
    stop: str | list[str] | None = Field(None, description="The text ends before one of these.")
    frequency_penalty: float | None = Field(None, description="Per occurrence in the output.")
    presence_penalty: float | None = Field(None, description="For tokens that are in the output.")
    logit_bias: dict[str, float] | None = Field(None, description="Added to the logits of token ids, -100 ... 100.")
    user: str | None = Field(None, description=NO_EFFECT, json_schema_extra=INERT)
    # -- beyond OpenAI's
    top_k: int | None = Field(None, description="Keep the k most likely tokens; 0 or -1 keeps all.")
    min_p: float | None = Field(None, description="Keep tokens at least this many times as likely as the best.")
    repetition_penalty: float | None = Field(None, description="Divides logits of tokens in prompt or output.")
    min_tokens: int | None = Field(None, description="So many tokens come before a stop token may.")
    stop_token_ids: list[int] | None = Field(None, description="Further ids that end the generation.")
    ignore_eos: bool | None = Field(None, description="Do not end at the model's own stop tokens.")
    bad_words: str | list[str] | None = Field(None, description="Strings that are not generated.")
    skip_special_tokens: bool | None = Field(None, description="Leave special tokens out of the text; default true.")
    regex: str | None = Field(None, description="The output matches this expression as a whole.")
    grammar: str | None = Field(None, description="The output follows this grammar (Lark form of llguidance).")
    speculation: int | None = Field(
        None, description="Tokens proposed at a time at most; 0 decodes without the draft. Changes speed, never text."
    )
    return_metrics: bool | None = Field(None, description="Put the counters of docs/metrics.md into each choice.")
    saguaro: Extension | None = Field(
        None, description='`{"rounds": true}` puts `saguaro.rounds` into each choice: records as in docs/metrics.md.'
    )
    response_format: ResponseFormat | None = Field(
        None, description="`text`, `json_object` or `json_schema`; exact under speculation."
    )


class ChatRequest(Generation):
    """Body of `/v1/chat/completions`."""

    messages: list[Message] = Field(description="The conversation, rendered by the model's chat template.")
    max_tokens: int | None = Field(None, description="Tokens at most; default: what the context leaves.")
    max_completion_tokens: int | None = Field(None, description="The newer name of `max_tokens`.")
    logprobs: bool | None = Field(None, description="Report log probabilities by the target's own law.")
    top_logprobs: int | None = Field(None, description="And of so many likeliest tokens, 0 ... 20.")
    tools: list[Tool] | None = Field(None, description="Functions that the model may call.")
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = Field(
        None, description="`none`, `auto` (default), `required`, or one function by name."
    )
    parallel_tool_calls: bool | None = Field(None, description="False: the first call only.")
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description='Variables of the template, for example `{"enable_thinking": false}`.'
    )
    store: Literal[False] | None = Field(None, description="Nothing is stored.", json_schema_extra=INERT)
    metadata: dict[str, str] | None = Field(None, description=NO_EFFECT, json_schema_extra=INERT)
    service_tier: Literal["auto", "default"] | None = Field(None, description=NO_EFFECT, json_schema_extra=INERT)
    safety_identifier: str | None = Field(None, description=NO_EFFECT, json_schema_extra=INERT)
    prompt_cache_key: str | None = Field(None, description=NO_EFFECT, json_schema_extra=INERT)


class CompletionRequest(Generation):
    """Body of `/v1/completions`."""

    prompt: str | list[str] | list[int] | list[list[int]] = Field(
        description="A text or token ids, or a list of either; choices come prompt by prompt."
    )
    max_tokens: int | None = Field(None, description="Tokens at most; default 16. 0 with `echo` scores the prompt.")
    logprobs: int | None = Field(
        None, description="Log probabilities of each token and of so many likeliest, 0 ... 20."
    )
    echo: bool | None = Field(None, description="Put the prompt before the text; with `logprobs` not streamed.")
    best_of: Literal[1] | None = Field(None, description="1 only.", json_schema_extra=INERT)


class InputItem(BaseModel):
    """An item of a conversation for `/v1/responses`: messages; reasoning of earlier turns is left out."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: Literal["message", "reasoning"] = "message"
    role: str | None = None
    content: str | list[dict[str, Any]] | None = None


class TextForm(Wire):
    """The form of the text of `/v1/responses`."""

    class Schema(NamedSchema):
        """A JSON schema; here its parts stand beside the type."""

        type: Literal["json_schema"]

    format: Annotated[TextFormat | JsonObjectFormat | Schema, Field(discriminator="type")] | None = None


class ResponsesRequest(Wire):
    """Body of `/v1/responses`: text only, nothing is stored."""

    model: str | None = None
    input: str | list[InputItem] = Field(description="A user's message, or the whole conversation.")
    instructions: str | None = Field(None, description="A system message in front.")
    stream: bool | None = Field(None, description="Send the answer piece by piece (server-sent events).")
    max_output_tokens: int | None = Field(None, description="Tokens at most; default: what the context leaves.")
    temperature: float | None = Field(None, description="0 is greedy; default 1.")
    top_p: float | None = Field(None, description="Keep the smallest set of tokens with this probability.")
    text: TextForm | None = Field(None, description="`format`: `text`, `json_object` or `json_schema`.")
    seed: int | None = Field(None, description="Key of the noise: the same seed gives the same text.")
    top_k: int | None = Field(None, description="Keep the k most likely tokens; 0 or -1 keeps all.")
    min_p: float | None = Field(None, description="Keep tokens at least this many times as likely as the best.")
    repetition_penalty: float | None = Field(None, description="Divides logits of tokens in prompt or output.")
    ignore_eos: bool | None = Field(None, description="Do not end at the model's own stop tokens.")
    speculation: int | None = Field(None, description="Tokens proposed at a time at most; 0: without the draft.")
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="Variables of the template.")
    truncation: Literal["disabled"] | None = Field(None, description="`disabled`: a long prompt is refused.")
    store: bool | None = Field(None, description="Nothing is stored.", json_schema_extra=INERT)
    user: str | None = Field(None, description=NO_EFFECT, json_schema_extra=INERT)
    metadata: dict[str, str] | None = Field(None, description="Comes back as it is.")


class TokenizeRequest(Wire):
    """Body of `/tokenize`: a prompt or messages."""

    model: str | None = None
    prompt: str | None = Field(None, description="Text to encode.")
    messages: list[Message] | None = Field(None, description="Or a conversation, rendered first.")
    tools: list[Tool] | None = Field(None, description="Functions for the template.")
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="Variables of the template.")
    add_special_tokens: bool = Field(True, description="Put the beginning token in front where the model takes one.")
    return_token_strs: bool = Field(False, description="Also give the text of each token.")


class DetokenizeRequest(Wire):
    """Body of `/detokenize`."""

    model: str | None = None
    tokens: list[int] = Field(description="Ids to decode; special tokens are shown.")


REFUSED = {
    "functions": "use 'tools'",
    "function_call": "use 'tool_choice'",
    "audio": "this server gives text only",
    "modalities": "this server gives text only",
    "prediction": "proposals come from the draft model",
    "reasoning_effort": 'use chat_template_kwargs, for example {"enable_thinking": false}',
    "verbosity": "the model has no such setting",
    "web_search_options": "this server searches nothing",
    "suffix": "the models complete at the end only",
    "prompt_logprobs": "use 'echo' with 'logprobs' of /v1/completions",
    "previous_response_id": "nothing is stored; send the whole conversation",
    "conversation": "nothing is stored; send the whole conversation",
    "background": "nothing is stored; use 'stream'",
    "reasoning": 'use chat_template_kwargs, for example {"enable_thinking": false}',
    "use_beam_search": "sampling is by noise or greedy",
    "guided_json": "use 'response_format'",
    "guided_regex": "use 'regex'",
    "guided_grammar": "use 'grammar'",
}
"""Fields that are known from elsewhere and not honoured here, and what to do instead."""
