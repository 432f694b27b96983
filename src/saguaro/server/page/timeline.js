// The timeline of target and draft, drawn from records of rounds as they come. Must not know: requests, the server.

import { inWords, lookup, placed, SHORT, waited } from "./rounds.js";

const ROUND_PIXELS = 80; // a round gets about so much room
const LEFT = 46; // room for the names of the lanes
const TARGET = { top: 26, height: 42 };
const MARKS = { top: 74, height: 22 };
const DRAFT = { top: 102, height: 58 };
const ANSWER = { top: 102, height: 12 }; // the upper part of the draft's lane
const STILL_SECONDS = 1; // how often the picture changes where people ask for little motion
const ROWS = 20; // of the table
const LANES = [
  ["prefill", "prompt"],
  ["verify", "verification"],
  ["wait", "waiting for the draft"],
  ["handover", "look-up and hand-over"],
  ["answer", "draft answers a miss (in SD: drafts)"],
];

/** Draws onto a canvas; a slider looks back. */
export class Timeline {
  constructor(canvas, slider, table, details) {
    this._canvas = canvas;
    this._slider = slider;
    this._table = table;
    this._details = details;
    this._records = [];
    this._asked = false;
    this._drawn = 0;
    this._still = matchMedia("(prefers-reduced-motion: reduce)");
    slider.addEventListener("input", () => this.draw());
    details.addEventListener("toggle", () => this._fill());
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Show the records of one answer; the list may grow. */
  show(records) {
    this._records = records;
    this._slider.value = this._slider.max = "0";
    this._slider.disabled = true;
    this.settle();
  }

  /** Records came: draw soon. */
  grew() {
    if (this._asked) return;
    this._asked = true;
    const wait = this._still.matches ? Math.max(0, this._drawn + 1000 * STILL_SECONDS - performance.now()) : 0;
    setTimeout(() => requestAnimationFrame(() => this.draw()), wait);
  }

  /** No more records come: say what there is to those who do not see it. */
  settle() {
    this.draw();
    this._fill();
    this._canvas.setAttribute("aria-label", `Timeline of target and draft: ${inWords(this._records)}`);
  }

  /** Draw the newest rounds, or those the slider asks for. */
  draw() {
    this._asked = false;
    this._drawn = performance.now();
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this._canvas;
    if (!width) return;
    this._canvas.width = Math.round(width * ratio);
    this._canvas.height = Math.round(height * ratio);
    const pen = this._canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const records = this._window(Math.max(4, Math.floor((width - LEFT) / ROUND_PIXELS)));
    new Picture(pen, width, height, colours(this._canvas)).paint(records);
  }

  _window(count) {
    const most = Math.max(0, this._records.length - count);
    const back = Number(this._slider.max) - Number(this._slider.value);
    this._slider.max = String(most);
    this._slider.value = String(Math.max(0, most - back));
    this._slider.disabled = most === 0;
    const from = Number(this._slider.value);
    return this._records.slice(from, from + count);
  }

  _fill() {
    if (!this._details.open) return;
    const rows = this._records.slice(-ROWS).map((record) => {
      const row = document.createElement("tr");
      const prefill = record.source === "prefill";
      const cells = [
        record.round, prefill ? "" : lookup(record), record.source, record.branches, record.depth, record.proposed,
        record.accepted, waited(record).toFixed(1), record.verify_ms.toFixed(1), record.rows,
      ];
      for (const value of cells) {
        const cell = document.createElement("td");
        cell.textContent = value;
        row.append(cell);
      }
      return row;
    });
    this._table.replaceChildren(...rows);
  }
}

/** The legend of the timeline, as list items. */
export function laneLegend() {
  const items = LANES.map(([kind, name]) => {
    const item = document.createElement("li");
    const swatch = document.createElement("span");
    swatch.className = `swatch ${kind}`;
    item.append(swatch, name);
    return item;
  });
  const marks = document.createElement("li");
  marks.textContent = "✓ hit, ✗ miss; squares: open branches, the filled one was hit; a/b: a of b tokens accepted";
  return [...items, marks];
}

function colours(element) {
  const style = getComputedStyle(element);
  const names = ["text", "quiet", "line", "panel", "verify", "wait", "handover", "answer", "hit", "alert", "bonus-tint"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Reading a long prompt would leave no room for rounds: its block begins later, and its label says how long it took. */
function shortened(records, places) {
  if (records[0].source !== "prefill" || records.length < 2) return;
  const typical = (places.at(-1).end - places[0].end) / (records.length - 1);
  const begin = Math.max(places[0].begin, places[0].end - 2 * typical);
  Object.assign(places[0], { begin, ready: begin });
}

/** One drawing; x is time. */
class Picture {
  constructor(pen, width, height, colour) {
    Object.assign(this, { pen, width, height, colour });
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
  }

  paint(records) {
    this._names();
    if (!records.length) return;
    const places = records.map(placed);
    shortened(records, places);
    this._begin = Math.min(...places.map((place) => place.begin));
    const end = places.at(-1).end;
    this._scale = (this.width - LEFT - 18) / Math.max(1e-6, end - this._begin);
    this._axis(end);
    records.forEach((record, number) => {
      this._target(record, places[number]);
      this._draft(record, places[number], number ? places[number - 1].begin : this._begin);
    });
  }

  _x(time) {
    return LEFT + (time - this._begin) * this._scale;
  }

  _names() {
    const { pen, colour } = this;
    pen.fillStyle = colour.text;
    pen.textAlign = "left";
    pen.fillText("target", 0, TARGET.top + TARGET.height / 2);
    pen.fillText("draft", 0, DRAFT.top + DRAFT.height / 2);
    pen.strokeStyle = colour.line;
    for (const lane of [TARGET, DRAFT]) {
      pen.strokeRect(LEFT - 0.5, lane.top - 0.5, this.width - LEFT, lane.height + 1);
    }
  }

  /** Milliseconds since the first round that is shown. */
  _axis(end) {
    const { pen, colour } = this;
    const span = 1000 * (end - this._begin);
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4].find(
      (each) => span / each <= (this.width - LEFT) / 70,
    ) ?? 1e5;
    pen.fillStyle = colour.quiet;
    pen.strokeStyle = colour.line;
    pen.textAlign = "center";
    for (let at = 0; at <= span; at += step) {
      const x = this._x(this._begin + at / 1000);
      pen.beginPath();
      pen.moveTo(x, 16);
      pen.lineTo(x, DRAFT.top + DRAFT.height + 8);
      pen.stroke();
      if (x < this.width - 24) pen.fillText(at ? `${at}` : "0 ms", Math.max(x, LEFT + 12), 8);
    }
  }

  _target(record, place) {
    const { colour } = this;
    const { depth, pending } = record.wait_ms;
    const first = record.source === "prefill";
    const asked = place.begin + pending / 1000;
    const deep = asked + depth / 1000;
    this._hatched(TARGET, place.begin, deep, colour.wait, 1);
    this._block(TARGET, deep, place.ready, colour.handover);
    this._block(TARGET, place.ready, place.end, first ? colour["bonus-tint"] : colour.verify);
    const label = first ? `prompt ${Math.round(record.verify_ms)} ms` : `${record.accepted}/${record.proposed}`;
    this._label(TARGET, place.ready, place.end, label, first ? colour.text : colour.panel);
  }

  /** From the look-up before to this one: branches that were open at its end, and what the look-up gave. */
  _draft(record, place, since) {
    const { colour } = this;
    if (record.source === "prefill") return;
    // In SD the draft shares the target's device, and drafts while the target hands over.
    const local = record.hit === null && record.source === "neural" ? waited(record) : record.wait_ms.pending;
    this._hatched(ANSWER, place.begin, place.begin + local / 1000, colour.answer, -1);
    this._branches(record, this._x(since) + 3, this._x(place.begin) - 4);
    this._mark(record, place);
  }

  /** Squares for branches and a word for what the look-up gave, left of the look-up. */
  _branches(record, left, right) {
    const { pen, colour } = this;
    const size = 6;
    const most = 3 * Math.floor((right - left) / (size + 2));
    if (record.hit === null || most < 3) return;
    const shown = Math.min(record.branches, most);
    const across = Math.ceil(shown / 3);
    const from = right - across * (size + 2) + 2;
    const word = record.hit ? `${record.depth} deep` : (SHORT[record.reason] ?? record.reason);
    pen.strokeStyle = colour.quiet;
    for (let number = 0; number < shown; number += 1) {
      const x = from + (number % across) * (size + 2);
      const y = ANSWER.top + ANSWER.height + 4 + Math.floor(number / across) * (size + 2);
      if (record.hit && number === 0) {
        pen.fillStyle = colour.hit;
        pen.fillRect(x, y, size, size);
      }
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    }
    if (pen.measureText(word).width > right - left) return;
    pen.fillStyle = colour.text;
    pen.textAlign = "right";
    pen.fillText(word, right, DRAFT.top + DRAFT.height - 9);
  }

  _mark(record, place) {
    const { pen, colour } = this;
    if (record.hit === null) return;
    const x = this._x(place.begin);
    pen.strokeStyle = record.hit ? colour.hit : colour.alert;
    pen.beginPath();
    pen.moveTo(x, TARGET.top + TARGET.height);
    pen.lineTo(x, DRAFT.top + DRAFT.height);
    pen.stroke();
    pen.fillStyle = colour.panel;
    pen.fillRect(x - 7, MARKS.top + 2, 14, MARKS.height - 4);
    pen.fillStyle = pen.strokeStyle;
    pen.textAlign = "center";
    pen.font = "bold 15px system-ui, sans-serif";
    pen.fillText(record.hit ? "✓" : "✗", x, MARKS.top + MARKS.height / 2);
    pen.font = "12px system-ui, sans-serif";
  }

  _block(lane, from, to, colour) {
    if (to <= from) return;
    const [left, right] = [this._x(from), this._x(to)];
    this.pen.fillStyle = colour;
    this.pen.fillRect(left, lane.top, Math.max(1, right - left - 0.5), lane.height);
  }

  _hatched(lane, from, to, colour, slope) {
    if (to <= from) return;
    const { pen } = this;
    const [left, right] = [this._x(from), this._x(to)];
    pen.save();
    pen.beginPath();
    pen.rect(left, lane.top, Math.max(1.5, right - left), lane.height);
    pen.clip();
    pen.strokeStyle = colour;
    pen.lineWidth = 2.5;
    for (let x = left - lane.height; x < right + lane.height; x += 6) {
      pen.beginPath();
      pen.moveTo(x, slope > 0 ? lane.top + lane.height : lane.top);
      pen.lineTo(x + lane.height, slope > 0 ? lane.top : lane.top + lane.height);
      pen.stroke();
    }
    pen.restore();
  }

  _label(lane, from, to, text, colour) {
    const { pen } = this;
    const [left, right] = [this._x(from), this._x(to)];
    if (pen.measureText(text).width + 4 > right - left) return;
    pen.fillStyle = colour;
    pen.textAlign = "center";
    pen.fillText(text, (left + right) / 2, lane.top + lane.height / 2);
  }
}
