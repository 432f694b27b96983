// What the records of rounds say (docs/metrics.md): origins of tokens, figures, what stands on the timeline.
// Pure functions of records. Must not know: the document, the server.

/** Origins as the page tells them: class of a token, its name, and what it means. */
export const ORIGINS = [
  ["hit", "accepted, from a hit", "the draft had prepared it before the outcome was known"],
  ["fallback", "accepted, from a fallback", "the answer to a miss; in SD, the draft's proposal"],
  ["bonus", "bonus", "the target's own token after a proposal"],
  ["forced", "certain", "the only token that a grammar allowed"],
  ["plain", "the target alone", "nothing was proposed: the first token, and all of AR"],
];

const MISSES = {
  k_not_covered: "no branch for this number of accepted tokens",
  token_not_covered: "no branch for this bonus token",
  not_ready: "the branch was not ready",
  unused: "the branch was there and not used",
  no_draft: "no draft for this request",
};

/** Reasons of misses where there is little room. */
export const SHORT = {
  k_not_covered: "other k",
  token_not_covered: "other token",
  not_ready: "not ready",
  unused: "unused",
  no_draft: "no draft",
};

/** Which of `ORIGINS` a token of a round is. */
export function kindOf(token, round) {
  if (token.origin === "prefill" || (token.origin === "bonus" && round.proposed === 0)) return "plain";
  return token.origin;
}

/** Rounds but the record of prefill. */
export function verified(records) {
  return records.filter((record) => record.source !== "prefill");
}

/** Figures of an answer; null where they say nothing. Times are the engine's own, in seconds. */
export function figuresOf(records) {
  const rounds = verified(records);
  const tokens = records.reduce((sum, record) => sum + record.tokens.length, 0);
  const looked = rounds.filter((record) => record.hit !== null);
  const hits = looked.filter((record) => record.hit).length;
  const later = rounds.reduce((sum, record) => sum + record.tokens.length, 0);
  const seconds = records.length > 1 ? records.at(-1).time - records[0].time : 0;
  return {
    tokens,
    rounds: rounds.length,
    seconds,
    hitRate: looked.length ? hits / looked.length : null,
    length: rounds.length ? later / rounds.length : null,
    rate: seconds > 0 ? later / seconds : null,
  };
}

/** What a look-up gave, in words. */
export function lookup(record) {
  if (record.hit === null) return "none";
  return record.hit ? "hit" : `miss: ${MISSES[record.reason] ?? record.reason}`;
}

/** Milliseconds that the target waited before a verification. */
export function waited(record) {
  return record.wait_ms.depth + record.wait_ms.pending + record.wait_ms.handover;
}

/**
 * A round on the clock, in seconds: `begin` is the outcome before it, `ready` the start of its verification, `end` its
 * own outcome. Waits lie between the first two: choosing and asking, then waiting for depth, then handing over.
 */
export function placed(record) {
  const ready = record.time - record.verify_ms / 1000;
  return { begin: ready - waited(record) / 1000, ready, end: record.time };
}

/** One sentence about a whole answer. */
export function inWords(records) {
  const found = figuresOf(records);
  if (!found.rounds) return "no round yet.";
  const hits = found.hitRate === null ? "nothing was looked up" : `${percent(found.hitRate)} of the look-ups were hits`;
  const rate = found.rate === null ? "" : `, ${found.rate.toFixed(1)} tokens a second`;
  return `${found.rounds} rounds, ${found.length.toFixed(2)} tokens a round, ${hits}${rate}.`;
}

/** A share as text. */
export function percent(share) {
  return `${Math.round(100 * share)} %`;
}
