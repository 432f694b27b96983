// Asking the server: JSON, streams of events, the key. Errors come as sentences. Must not know: the document.

let key = "";

/** Keep a key for the requests that follow, in memory only. */
export function useKey(given) {
  key = given;
}

/** An answer that is an error, or no answer; `status` is 0 when there was none. */
export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** How the engine decodes now (`/state`). */
export async function askState() {
  return (await request("state", {})).json();
}

/** The events of a chat, as they come, until the answer ends; throws `Failure`, or what an aborted request throws. */
export async function* chat(body, signal) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, saguaro: { rounds: true } }),
    signal,
  });
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Failure(chunk.error.message, response.status);
    yield chunk;
  }
  throw new Failure("The connection ended before the answer did.");
}

async function request(path, options) {
  const headers = { ...options.headers };
  if (key) headers.authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server cannot be reached. Is it still running?");
  }
  if (!response.ok) throw new Failure(await words(response), response.status);
  return response;
}

async function words(response) {
  const wait = response.headers.get("retry-after");
  const more = wait ? ` Try again in ${wait} s.` : "";
  try {
    return (await response.json()).error.message + more;
  } catch {
    return `The server answered with status ${response.status}.${more}`;
  }
}

/** The data of server-sent events; comments are left out. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      held += value;
      const blocks = held.split("\n\n");
      held = blocks.pop();
      for (const block of blocks) {
        if (block.startsWith("data: ")) yield block.slice("data: ".length);
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Failure) throw error;
    throw new Failure("The connection to the server was lost.");
  } finally {
    reader.cancel().catch(() => {});
  }
}
