// The live figures: of the answer under way, and of the engine (`/state`). Must not know: the conversation.

import { made } from "./answer.js";
import { askState } from "./api.js";
import { figuresOf, percent } from "./rounds.js";

const ASK_SECONDS = 1;
const NAMES = [
  ["mode", "mode"],
  ["hit", "hit rate"],
  ["length", "tokens a round"],
  ["rate", "tokens/s"],
  ["rounds", "rounds"],
  ["lookahead", "lookahead K"],
  ["budget", "budget B"],
];
const NONE = "–";

/** Shows figures; asks the engine how it decodes while an answer comes. */
export class Figures {
  constructor(list, draftLine, served) {
    this._cells = {};
    this._draftLine = draftLine;
    this._served = served;
    this._before = null;
    this._timer = 0;
    this.state = null;
    for (const [key, name] of NAMES) {
      const group = made("div");
      this._cells[key] = made("dd", "", NONE);
      this._cells[key].id = `figure-${key}`;
      group.append(made("dt", "", name), this._cells[key]);
      list.append(group);
    }
  }

  /** Figures of these records. */
  show(records) {
    const found = figuresOf(records);
    this._set("hit", found.hitRate === null ? NONE : percent(found.hitRate));
    this._set("length", found.length === null ? NONE : found.length.toFixed(2));
    this._set("rate", found.rate === null ? NONE : found.rate.toFixed(1));
    this._set("rounds", found.rounds || NONE);
  }

  /** Ask the engine once; throws `Failure`. */
  async refresh() {
    const state = (this.state = await askState());
    this._set("mode", state.mode.toUpperCase() + (state.gear === state.mode ? "" : `, now ${state.gear.toUpperCase()}`));
    this._set("lookahead", state.lookahead ?? NONE);
    this._set("budget", state.budget ?? NONE);
    const draft = state.draft_name === null ? "no draft" : `draft ${state.draft_name}`;
    this._served.textContent = `${state.model}, ${draft}, ${state.context} tokens of context`;
    this._tellDraft(state);
    return state;
  }

  /** Ask again and again until `rest`. */
  watch() {
    this._before = this.state?.draft ?? null;
    this._timer = setInterval(() => this.refresh().catch(() => {}), 1000 * ASK_SECONDS);
  }

  /** The answer has ended. */
  rest() {
    clearInterval(this._timer);
    this._timer = 0;
  }

  _tellDraft(state) {
    if (state.mode !== "ssd") {
      this._draftLine.textContent =
        state.mode === "sd" ? "SD: the draft runs on the target's device, between verifications." : "AR: no draft.";
      return;
    }
    if (state.draft === null) {
      this._draftLine.textContent = "The draft is gone; answers go on without it.";
      return;
    }
    const [now, before] = [state.draft, this._before];
    const steps = before === null ? 0 : now.steps - before.steps;
    if (steps <= 0) return;
    const busy = now.busy_seconds - before.busy_seconds;
    const all = busy + now.idle_seconds - before.idle_seconds;
    this._draftLine.textContent =
      `The draft since this answer began: ${steps} steps, busy ${percent(busy / all)} of its time, ` +
      `${((1000 * busy) / steps).toFixed(1)} ms a step in the mean (all requests).`;
  }

  _set(key, value) {
    this._cells[key].textContent = value;
  }
}
