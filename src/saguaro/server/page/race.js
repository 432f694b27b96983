// The race: one prompt with one seed, with speculation and then without (AR), and whether the texts are the same.
// Must not know: the conversation.

import { Answer, made } from "./answer.js";
import { chat } from "./api.js";
import { figuresOf } from "./rounds.js";

/** What one runner shows: a bar, figures, its text. */
class Lane {
  constructor(parent, name, most) {
    const group = made("div", "lane");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", name);
    this.name = name;
    this.bar = made("progress");
    this.bar.max = most;
    this.bar.value = 0;
    this.bar.setAttribute("aria-label", `${name}: tokens`);
    this.facts = made("p", "facts", "waits for its turn");
    this.said = made("p", "said");
    this.said.tabIndex = 0;
    this.said.setAttribute("aria-label", `${name}: text`);
    group.append(made("h3", "", name), this.bar, this.facts, this.said);
    parent.append(group);
    this.answer = new Answer(this.said);
    this.first = null;
  }

  /** Run a request to its end. */
  async run(body, signal) {
    const begin = performance.now();
    this.facts.textContent = "asked";
    for await (const chunk of chat(body, signal)) {
      if (!this.answer.add(chunk)) continue;
      this.first ??= (performance.now() - begin) / 1000;
      this._tell();
    }
    this.bar.value = this.bar.max;
    this._tell();
  }

  /** Tokens, rate, time to the first token, and from there to the last. */
  _tell() {
    const found = figuresOf(this.answer.records);
    this.bar.value = Math.max(this.bar.value, found.tokens);
    const rate = found.rate === null ? "" : `, ${found.rate.toFixed(1)} tokens/s`;
    const first = this.first === null ? "" : `first after ${this.first.toFixed(2)} s, then `;
    this.facts.textContent = `${found.tokens} tokens: ${first}${found.seconds.toFixed(2)} s${rate}`;
  }
}

/**
 * Race in `place`; returns what came of it, in one sentence. `speculating` is the mode's name. Throws what `chat` throws;
 * then nothing is compared.
 */
export async function race(place, body, speculating, signal) {
  place.replaceChildren();
  const lanes = [
    new Lane(place, `${speculating}, as served`, body.max_tokens ?? 1),
    new Lane(place, "AR, speculation off", body.max_tokens ?? 1),
  ];
  await lanes[0].run(body, signal);
  await lanes[1].run({ ...body, speculation: 0 }, signal);
  return `${same(lanes[0].answer, lanes[1].answer)} ${faster(lanes, speculating)}`;
}

function same(one, other) {
  const [left, right] = [one.ids, other.ids];
  if (one.content === other.content && left.length === right.length && left.every((id, i) => id === right[i])) {
    return `Texts identical: ${left.length} of ${left.length} tokens.`;
  }
  const place = left.findIndex((id, i) => id !== right[i]);
  const at = (place < 0 ? Math.min(left.length, right.length) : place) + 1;
  return `TEXTS DIFFER from token ${at} on, which must not be; please report it.`;
}

function faster(lanes, speculating) {
  const [with_, without] = lanes.map((lane) => figuresOf(lane.answer.records));
  if (!with_.seconds || !without.seconds) return "Too short to compare the times.";
  const times = (without.seconds / with_.seconds).toFixed(2);
  return (
    `From the first token to the last: ${speculating} ${with_.seconds.toFixed(2)} s, AR ${without.seconds.toFixed(2)} s,` +
    ` ${times} × AR. They ran one after the other; AR, the second, found the prompt already read.`
  );
}
