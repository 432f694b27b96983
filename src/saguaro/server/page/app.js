// Puts the page together: the conversation, what one can press, and what is said aloud. State lives in memory only.

import { Answer, made } from "./answer.js";
import { chat, Failure, useKey } from "./api.js";
import { Figures } from "./figures.js";
import { race } from "./race.js";
import { figuresOf, ORIGINS, percent } from "./rounds.js";
import { laneLegend, Timeline } from "./timeline.js";

const $ = (id) => document.getElementById(id);
const ENDS = { stop: "it ended by itself", length: "max tokens reached", abort: "ended by the server" };
const LATER = 700;

const figures = new Figures($("figures"), $("draft-busy"), $("served"));
const timeline = new Timeline($("timeline"), $("back"), $("table"), $("rounds"));
let messages = []; // the conversation, as the server gets it
let running = null; // what ends the request under way

// -- asking ---------------------------------------------------------------------------------------------------------

/** The options of the form; empty fields are left to the server, a seed is drawn so that it can be told. */
function sampling() {
  const found = { seed: crypto.getRandomValues(new Uint32Array(1))[0] };
  for (const [name, id] of [["temperature", "temperature"], ["max_tokens", "max-tokens"], ["seed", "seed"]]) {
    if ($(id).value !== "") found[name] = $(id).valueAsNumber;
  }
  return found;
}

/** Run one thing at a time; what goes wrong is told in words. Returns whether it came to its end. */
async function occupied(work) {
  const controller = (running = new AbortController());
  tell("alert", "");
  enable();
  figures.watch();
  try {
    await work(controller.signal);
    return true;
  } catch (error) {
    if (error.name === "AbortError") tell("status", "Stopped.");
    else fail(error);
    return false;
  } finally {
    running = null;
    figures.rest();
    enable();
    setTimeout(() => figures.refresh().catch(() => {}), LATER); // the server keeps what it knows for half a second
  }
}

function fail(error) {
  const known = error instanceof Failure;
  tell("status", "");
  tell("alert", known ? error.message : `This page failed: ${error.message}`);
  if (!known) console.error(error);
  if (error.status === 401) askKey(error.message);
}

async function send() {
  const text = $("prompt").value;
  if (running || !text.trim()) return;
  $("prompt").value = "";
  const asked = [...messages, { role: "user", content: text }];
  const question = message("user", "You", text);
  const [item, said, facts] = message("assistant", "Model", "");
  item.setAttribute("aria-busy", "true");
  tell("status", "The model answers.");
  const options = sampling();
  const answer = new Answer(said);
  timeline.show(answer.records);
  const whole = await occupied((signal) => take(answer, { messages: asked, ...options }, signal));
  item.removeAttribute("aria-busy");
  timeline.settle();
  if (!answer.records.length) {
    // Nothing came: the question goes back into the box.
    item.remove();
    question[0].remove();
    if (!$("prompt").value) $("prompt").value = text;
  } else {
    messages = [...asked, { role: "assistant", content: answer.content }];
    facts.textContent = summary(answer, options.seed, whole);
    if (whole) tell("status", "The answer is complete.");
    $("log").scrollTop = $("log").scrollHeight;
  }
  if (document.activeElement === document.body) $("prompt").focus();
}

async function take(answer, body, signal) {
  const log = $("log");
  for await (const chunk of chat(body, signal)) {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    if (!answer.add(chunk)) continue;
    figures.show(answer.records);
    timeline.grew();
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
}

function summary(answer, seed, whole) {
  const found = figuresOf(answer.records);
  const parts = [`${found.tokens} tokens`, `${found.seconds.toFixed(2)} s after the first`];
  if (found.rate !== null) parts.push(`${found.rate.toFixed(1)} tokens/s`);
  if (found.hitRate !== null) parts.push(`hit rate ${percent(found.hitRate)}`);
  parts.push(`seed ${seed}`, whole ? (ENDS[answer.finish] ?? "") : "not complete");
  return parts.join(" · ");
}

async function startRace() {
  if (running) return;
  const text = $("prompt").value.trim();
  const last = messages.findLastIndex((each) => each.role === "user");
  if (!text && last < 0) {
    tell("alert", "Write a message first; the race runs it twice.");
    $("prompt").focus();
    return;
  }
  const asked = text ? [...messages, { role: "user", content: text }] : messages.slice(0, last + 1);
  tell("race-result", "");
  await occupied(async (signal) => {
    const state = await figures.refresh();
    if (state.mode === "ar") throw new Failure("This server runs AR alone: there is nothing to race against.");
    tell("status", "The race runs.");
    $("race-panel").scrollIntoView({ block: "nearest" });
    const others = state.running > 0 ? " Other requests ran meanwhile, so the times say little." : "";
    const result = await race($("race-lanes"), { messages: asked, ...sampling() }, state.mode.toUpperCase(), signal);
    tell("race-result", result + others);
    tell("status", "The race is over.");
  });
}

// -- what is shown --------------------------------------------------------------------------------------------------

/** A message in the log: itself, its text, and a line of facts. */
function message(role, who, text) {
  $("empty")?.remove();
  const item = made("article", `message ${role}`);
  const said = made("p", "said", text);
  const facts = made("p", "facts");
  item.append(made("p", "who", who), said, facts);
  $("log").append(item);
  $("log").scrollTop = $("log").scrollHeight;
  return [item, said, facts];
}

function tell(id, text) {
  $(id).textContent = text;
  if (id === "alert") $(id).hidden = !text;
}

function enable() {
  const busy = running !== null;
  const hadFocus = busy ? [$("send"), $("race")] : [$("stop")];
  const lost = hadFocus.includes(document.activeElement);
  for (const id of ["send", "race", "fresh"]) $(id).disabled = busy;
  $("stop").disabled = !busy;
  if (lost) (busy ? $("stop") : $("prompt")).focus();
}

function begin() {
  messages = [];
  $("log").replaceChildren();
  timeline.show([]);
  figures.show([]);
  tell("alert", "");
  tell("race-result", "");
  $("race-lanes").replaceChildren();
  tell("status", "A new conversation.");
  $("prompt").focus();
}

function mark() {
  document.body.classList.toggle("coloured", $("coloured").checked);
}

// -- the key --------------------------------------------------------------------------------------------------------

function askKey(why) {
  const alert = $("key-alert");
  alert.textContent = why;
  alert.hidden = false;
  if (!$("key-dialog").open) $("key-dialog").showModal();
  $("key").focus();
}

async function connect() {
  try {
    await figures.refresh();
  } catch (error) {
    $("served").textContent = "not connected";
    fail(error);
  }
}

async function giveKey(event) {
  event.preventDefault();
  useKey($("key").value.trim());
  $("key").value = "";
  $("key-dialog").close();
  tell("alert", "");
  await connect();
  if (!$("key-dialog").open) $("prompt").focus();
}

// -- begin ----------------------------------------------------------------------------------------------------------

function legend() {
  for (const [kind, name, meaning] of ORIGINS) {
    if (kind === "forced") continue; // this page asks for no grammar
    const item = made("li");
    item.append(made("span", `token ${kind}`, name), `: ${meaning}`);
    $("origins").append(item);
  }
  $("lanes").append(...laneLegend());
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("ask").requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("key-dialog").open) running?.abort();
});
$("stop").addEventListener("click", () => running?.abort());
$("race").addEventListener("click", startRace);
$("fresh").addEventListener("click", begin);
$("coloured").addEventListener("change", mark);
$("key-form").addEventListener("submit", giveKey);
$("key-cancel").addEventListener("click", () => $("key-dialog").close());

legend();
mark();
connect();
$("prompt").focus();
