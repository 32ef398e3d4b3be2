// The page of a language model: a prompt, what it writes on, and at each place what else might have stood there.
import { button, el, number, rove } from "regard/dom.js";
import { events, get, key, post } from "./api.js";
import { copied } from "./composer.js";
import { read, write as keep } from "./place.js";
import { theme } from "./theme.js";

const find = (name) => document.querySelector(`[data-${name}]`);
const WAIT = 300; // milliseconds without a key after which the prompt is read
const LENGTHS = [20, 50, 100, 200, 500, 1000];
const NEW = "\u21b5"; // a line's end, where it can be seen

const text = find("text");
const place = read();
let info = null;
let pieces = []; // {id, text, probability, rank, top}; those of the prompt first
let given = 0; // how many are the prompt's
let next = []; // what may come after the last: [id, text, probability]
let at = 0; // the chosen place; pieces.length is what comes next
let waiting = null;
let stale = true; // the prompt was changed after it was read
let asked = null; // what the server works on
let writing = false;
let whole = null; // the text as it is written without being cut into pieces

theme(find("theme-switch"));
find("skip").addEventListener("click", (event) => { // what stands behind the # is the page's own
  event.preventDefault();
  text.focus();
});
function start() {
  const count = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : `${Math.round(n / 1e3)} k`);
  find("served").textContent = info.writers.map((w) => `${w.name}: ${w.network}, ${count(w.parameters)} parameters`).join(" · ");
  find("other").hidden = !info.models.length;
  find("key").hidden = !info.key_required;
  const names = find("models").querySelector("select");
  names.append(...info.writers.map((w) => el("option", { value: w.name }, w.name)));
  find("models").hidden = info.writers.length < 2;
  if (info.writers.some((w) => w.name === place.model)) names.value = place.model;
  names.addEventListener("change", () => changed(true));
  const lengths = LENGTHS.filter((n) => n <= info.limits.tokens);
  find("length").append(...(lengths.length ? lengths : [info.limits.tokens]).map((n) => el("option", { value: n }, `${n} pieces`)));
  if (lengths.includes(100)) find("length").value = "100";
  const warm = () => { find("temperature-told").textContent = number(Number(find("temperature").value), 1); };
  find("temperature").addEventListener("input", warm);
  warm();
  text.value = place.text || "";
  text.addEventListener("input", () => changed(false));
  text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) go(); });
  find("go").addEventListener("click", go);
  find("clear").addEventListener("click", () => { text.value = ""; changed(true); text.focus(); });
  find("copy").addEventListener("click", (event) => copied(event.currentTarget, whole ?? ""));
  for (const kind of ["change", "submit"]) find("key").addEventListener(kind, (event) => {
    event.preventDefault();
    key.value = find("key").querySelector("input").value.trim();
    changed(true);
  });
  addEventListener("resize", lay);
  rove(find("pieces"));
  changed(true);
}

const model = () => find("models").querySelector("select").value;

function changed(now) {
  clearTimeout(waiting);
  stale = true;
  stop();
  lay();
  waiting = setTimeout(prompt, now ? 0 : WAIT);
}

// The prompt in pieces, and what may come after it.
async function prompt() {
  clearTimeout(waiting);
  Object.assign(place, { text: text.value, model: info.writers.length > 1 ? model() : null });
  keep(place);
  asked?.abort();
  asked = new AbortController();
  try {
    const found = await post("/api/next", { model: model(), text: text.value }, asked.signal);
    [pieces, next] = [found.tokens, found.next];
    given = at = pieces.length;
    whole = null;
    stale = false;
    draw();
    problem(null);
    return true;
  } catch (error) {
    if (error.name !== "AbortError") problem(error);
    return false;
  }
}

async function go() {
  if (writing) return stop();
  if (stale || pieces.length !== given) {
    stop();
    if (!(await prompt())) return;
  }
  stream();
}

// Goes on from the pieces that are there, one after the other.
async function stream() {
  asked?.abort();
  const mine = asked = new AbortController();
  turn(true);
  whole = null;
  next = [];
  at = pieces.length;
  const body = {
    model: model(), tokens: pieces.map((piece) => piece.id), max_tokens: Number(find("length").value),
    temperature: Number(find("temperature").value), seed: Math.floor(Math.random() * 2 ** 31),
  };
  draw();
  try {
    for await (const { event, data } of events("/api/write", body, mine.signal)) {
      if (event === "error") throw new Error(data.error);
      if (event === "end") {
        [whole, next] = [data.text, data.next];
        find("status").textContent = `Written: ${whole}`;
      }
      if (event !== "step") continue;
      const follows = at === pieces.length || at === pieces.length - 1; // until somebody chooses another place
      pieces.push(data);
      find("pieces").querySelector(".caret").before(...made(data, pieces.length - 1));
      if (follows) choose(pieces.length - 1);
    }
    problem(null);
  } catch (error) {
    if (error.name !== "AbortError") problem(error);
  }
  if (mine !== asked) return;
  whole ??= written(); // it was stopped
  turn(false);
  choose(at);
}

// The text as far as it was written; the bytes of a character can stand in several pieces.
const written = () => pieces.map((piece) => piece.text).join("").replace(/^ /, "").replace(/(\u27e8[0-9A-F]{2}\u27e9)+/g, (bytes) =>
  new TextDecoder().decode(Uint8Array.from(bytes.match(/\w\w/g), (byte) => parseInt(byte, 16))));

function stop() {
  asked?.abort();
  turn(false);
}

function turn(on) {
  writing = on;
  find("go").textContent = on ? "Stop" : "Write";
  find("pieces").classList.toggle("busy", on);
  find("copy").hidden = on || !whole;
  find("told").setAttribute("aria-live", on ? "off" : "polite"); // not every piece as it comes
}

// One of the likely pieces in place of what stood there; what came after it is written anew.
function instead(i, [id, shown, probability], rank, top) {
  if (stale) return; // of a text that is not there any more; others are on their way
  stop();
  const from = pieces[i]?.start;
  pieces = pieces.slice(0, i);
  pieces.push({ id, text: shown, probability, rank, top, start: from });
  if (i < given) {
    given = i + 1;
    const kept = [...text.value].slice(0, from).join(""); // the server counts characters, not halves of them
    text.value = shown.startsWith("\u27e8") ? kept : kept + (kept ? shown : shown.trimStart()); // a byte is no text yet
    place.text = text.value;
    keep(place);
    lay();
  }
  stream();
}

function draw() {
  const caret = button("", { class: "caret", "aria-label": "What comes next" }, () => choose(pieces.length));
  find("pieces").replaceChildren(...pieces.flatMap(made), caret);
  turn(writing);
  choose(at);
}

// A piece as a button. A space before it and the ends of lines in it stand beside it, where lines can be broken.
function made(piece, i) {
  const shown = piece.text.length > 1 ? piece.text.replace(/^ /, "") : piece.text;
  const one = button(shown.replaceAll("\n", NEW), { tabindex: -1, class: i < given ? "given" : "" }, () => choose(i));
  if (piece.probability !== null) one.style.setProperty("--s", surprise(piece.probability));
  one.addEventListener("focus", () => choose(i));
  return [shown === piece.text ? "" : " ", one, ...[...piece.text].filter((c) => c === "\n").map(() => el("br"))];
}

// From 0 for what was sure to come to 1 for what came once in a thousand times, or more seldom.
const surprise = (p) => Math.min(1, Math.log(Math.max(p, 1e-9)) / Math.log(0.001)).toFixed(3);

// Shows what else might stand at a place.
function choose(i) {
  at = Math.min(i, pieces.length);
  for (const one of find("pieces").querySelectorAll("[aria-pressed=true]")) mark(one, false);
  mark(find("pieces").querySelectorAll("button")[at], true);
  const piece = pieces[at];
  const after = pieces.slice(Math.max(0, at - 6), at).map((p) => p.text).join("").trim();
  find("place").textContent = after ? `After “${at > 6 ? "…" : ""}${after.replaceAll("\n", NEW)}”` : "At the beginning";
  const top = piece ? piece.top : next;
  if (piece && piece.probability === null) find("told").textContent = at ? "Too far back: what else might have stood here is not told." : "The text begins here: this piece was given.";
  else if (piece) find("told").replaceChildren(el("b", {}, visible(piece.text)), ` had probability ${percent(piece.probability)}${piece.rank === 1 ? ", the likeliest" : `, number ${piece.rank}`}. Choose another to go on from it.`);
  else find("told").textContent = top.length ? "Choose a piece to go on from it." : writing ? "Writing …" : "It was stopped here. Choose a piece of the text to go on from there.";
  const shown = piece && piece.probability !== null && !top.some(([id]) => id === piece.id)
    ? [...top, [piece.id, piece.text, piece.probability]] : top;
  find("bars").replaceChildren(...shown.map((one, n) => bar(one, piece, top, n < top.length ? n + 1 : piece.rank)));
}

function mark(one, on) {
  one.setAttribute("aria-pressed", String(on));
  one.tabIndex = on ? 0 : -1;
}

function bar(one, piece, top, rank) {
  const [id, shown, probability] = one;
  const on = piece?.id === id;
  const line = button("", { class: on ? "on" : "", "aria-label": `${visible(shown)}, ${percent(probability)}${on ? ", stands here" : ""}` }, () => instead(here, one, rank, top));
  const here = at;
  line.disabled = shown === "\u23ce"; // nothing comes after the end
  line.style.setProperty("--w", probability.toFixed(4));
  line.append(el("span", { class: "piece", dir: "auto" }, ...spaced(shown)), el("span", { class: "weight" }, el("i")), el("b", {}, percent(probability)));
  return el("li", { value: rank }, line);
}

const visible = (shown) => shown.replaceAll(" ", "\u2423").replaceAll("\n", NEW);

// Spaces and ends of lines can be seen, but do not shout.
const spaced = (shown) => [...shown].map((c) => (c === " " || c === "\n" ? el("i", {}, visible(c)) : c));

const percent = (p) => (p < 0.0005 ? "<0.1 %" : p < 0.0995 ? `${(100 * p).toFixed(1)} %` : `${Math.round(100 * p)} %`);

function lay() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
  find("clear").hidden = !text.value;
}

function problem(error) {
  find("problem").hidden = !error;
  find("problem").textContent = error ? error.message : "";
}

try {
  info = await get("/api/info");
  start();
} catch (error) {
  problem(error);
}
document.documentElement.dataset.ready = "";
