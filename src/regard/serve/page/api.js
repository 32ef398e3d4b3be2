// The server: questions in JSON, answers in JSON or as a stream of events; its own words when something is wrong.

export const key = { value: "" };

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function ask(path, body, signal) {
  const given = key.value ? { ...body, api_key: key.value } : body;
  let answer;
  try {
    answer = await fetch(path, {
      method: body ? "POST" : "GET",
      headers: body ? { "Content-Type": "application/json" } : {},
      body: body ? JSON.stringify(given) : undefined,
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. Is it still running?", 0);
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Problem(told.error || `The server answered ${answer.status}.`, answer.status);
}

export const get = async (path) => (await ask(path)).json();

export const post = async (path, body, signal) => (await ask(path, body, signal)).json();

// Server-sent events of an answer, each as {event, data}.
export async function* events(path, body, signal) {
  const answer = await ask(path, body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const blocks = held.split("\n\n");
    held = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => {
        const at = line.indexOf(":");
        return [line.slice(0, at), line.slice(at + 1).trim()];
      }));
      if (fields.data) yield { event: fields.event || "message", data: JSON.parse(fields.data) };
    }
  }
}
