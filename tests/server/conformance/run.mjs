// Runs the list by the npm package `openai` as it is and writes what it saw: node run.mjs URL KEY LIST > RESULTS.
// tests/server/test_conformance.py has the same in Python, and compares.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [url, key, list] = process.argv.slice(2);

const entries = (logprobs) => (logprobs?.content ?? []).map((each) => [each.token, each.top_logprobs.length]);
const textEntries = (lists) =>
  (lists?.tokens ?? []).map((token, i) => [token, Object.keys(lists.top_logprobs?.[i] ?? {}).length]);
const counts = (usage) => (usage ? [usage.prompt_tokens ?? usage.input_tokens, usage.completion_tokens ?? usage.output_tokens] : null);

function whole(what, answer) {
  if (what === "models") return { ids: answer.data.map((each) => each.id) };
  if (what === "responses") return { text: answer.output_text, status: answer.status, usage: counts(answer.usage) };
  const choices = answer.choices.map((each) => ({
    index: each.index,
    finish: each.finish_reason,
    text: what === "chat" ? (each.message.content ?? "") : each.text,
    calls: (each.message?.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments]),
    logprobs: what === "chat" ? entries(each.logprobs) : textEntries(each.logprobs),
  }));
  return { choices, usage: counts(answer.usage) };
}

async function folded(what, stream, leave) {
  const choices = [];
  let usage = null, response = null, text = "", seen = 0;
  for await (const chunk of stream) {
    if (leave && ++seen === leave) {
      stream.controller.abort();
      return { left: true };
    }
    if (what === "responses") {
      if (chunk.type === "response.output_text.delta") text += chunk.delta;
      response = chunk.response ?? response;
      continue;
    }
    usage = chunk.usage ? counts(chunk.usage) : usage;
    for (const each of chunk.choices) {
      choices[each.index] ??= { index: each.index, finish: null, text: "", calls: [], logprobs: [] };
      const choice = choices[each.index];
      choice.finish = each.finish_reason ?? choice.finish;
      choice.text += (what === "chat" ? each.delta.content : each.text) ?? "";
      for (const call of each.delta?.tool_calls ?? []) {
        choice.calls[call.index] ??= ["", ""];
        choice.calls[call.index][0] += call.function.name ?? "";
        choice.calls[call.index][1] += call.function.arguments ?? "";
      }
      choice.logprobs.push(...(what === "chat" ? entries(each.logprobs) : textEntries(each.logprobs)));
    }
  }
  if (what === "responses") return { text, status: response.status, usage: counts(response.usage) };
  return { choices, usage };
}

async function run(item) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: item.key ?? key, maxRetries: 0, timeout: 60_000 });
  const asked = { model: "toy", ...item.ask, ...item.more };
  if (item.repeat_prompt) asked.prompt = [Array(item.repeat_prompt).fill(asked.prompt[0]).flat()];
  if (item.stream) asked.stream = true;
  try {
    if (item.do === "models") return whole("models", await client.models.list());
    const make = { chat: client.chat.completions, completions: client.completions, responses: client.responses }[item.do];
    const answer = await make.create(asked);
    return item.stream ? await folded(item.do, answer, item.leave) : whole(item.do, answer);
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    const { status, param, code, type, message } = error;
    return { error: { class: error.constructor.name, status, param, code, type, message } };
  }
}

const results = {};
for (const item of JSON.parse(readFileSync(list, "utf-8"))) results[item.name] = await run(item);
process.stdout.write(JSON.stringify(results));
