// One answer on the page: its text by token, and what is known of it. Must not know: who asked, where it stands.

import { kindOf, ORIGINS } from "./rounds.js";

const MEANING = Object.fromEntries(ORIGINS.map(([kind, name, meaning]) => [kind, `${name}: ${meaning}`]));

/** An element with a class and text. */
export function made(tag, name = "", text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  return element;
}

/** Gathers the chunks of a stream and writes the tokens into an element. */
export class Answer {
  constructor(element) {
    this.element = element;
    this.records = [];
    this.content = "";
    this.finish = null;
    this._last = null;
    this._kind = "";
  }

  /** Take a chunk of a stream; returns whether rounds came with it. */
  add(chunk) {
    const choice = chunk.choices[0];
    if (!choice) return false;
    const thinking = Boolean(choice.delta.reasoning_content) && !choice.delta.content;
    this.content += choice.delta.content ?? "";
    this.finish = choice.finish_reason ?? this.finish;
    const rounds = choice.saguaro?.rounds ?? [];
    for (const round of rounds) {
      this.records.push(round);
      for (const token of round.tokens) this._write(token.text, kindOf(token, round), thinking);
    }
    return rounds.length > 0;
  }

  /** Token ids so far. */
  get ids() {
    return this.records.flatMap((record) => record.tokens.map((token) => token.id));
  }

  /** Neighbours of one origin share an element, so that a line is broken where the text allows it. */
  _write(text, kind, thinking) {
    if (!text) return;
    const name = `token ${kind}${thinking ? " reasoning" : ""}`;
    if (this._last === null || this._kind !== name) {
      this._last = made("span", name);
      this._last.title = MEANING[kind];
      this._kind = name;
      this.element.append(this._last);
    }
    this._last.append(text);
  }
}
