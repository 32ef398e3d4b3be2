// The page: what stands where, and who tells whom.
import { button, choice, clamp } from "regard/dom.js";
import { get, key } from "./api.js";
import { composer, copied } from "./composer.js";
import { inside } from "./inside.js";
import { read, write } from "./place.js";
import { LANGUAGES } from "./snippet.js";
import { theme } from "./theme.js";

const find = (name) => document.querySelector(`[data-${name}]`);
const SETTLED = 350; // milliseconds after which a translation is looked into
const place = read();
let timer = null;

theme(find("theme-switch"));
find("skip").addEventListener("click", (event) => { // what stands behind the # is the page's own
  event.preventDefault();
  find("text").focus();
});
try {
  start(await get("/api/info"));
} catch (error) {
  problem(error);
}
document.documentElement.dataset.ready = "";

function start(info) {
  serve(info);
  const views = inside(find("views"), place.view, (view) => { place.view = view; write(place); });
  const request = snippet(info.key_required);
  let texts = null; // it tells of its first text before it is there
  texts = composer(document, info, place, { problem, translated });

  function translated(found) {
    clearTimeout(timer);
    Object.assign(place, texts ? texts.place() : {});
    if (found) place.translation = found.chosen?.text;
    find("inside").hidden = !found?.sentences.length; // figures and signs alone are no language
    find("intro").hidden = Boolean(place.text);
    find("request").hidden = !found;
    write(place);
    if (found) request(found.asked);
    if (found?.sentences.length) sentences(found);
    else views.look(null);
  }

  // One sentence is looked into at a time: of several, the chosen one.
  function sentences(found) {
    const all = found.sentences;
    let at = clamp(parseInt(place.sentence, 10) || 0, 0, all.length - 1);
    const look = () => {
      const chosen = found.chosen?.sentences[at] ?? all[at].target;
      views.look({
        text: all[at].source, source: found.source, target: found.asked.target, alternatives: found.asked.alternatives,
        ...(chosen === all[at].target ? {} : { translation: chosen }), // its own it finds, and tells how
      });
    };
    const chips = all.length < 2 ? [] : all.map((one, i) => button(one.source, { dir: "auto", title: one.source }, () => {
      at = i;
      place.sentence = i || null;
      write(place);
      mark();
      clearTimeout(timer);
      look();
    }));
    const mark = () => chips.forEach((chip, i) => chip.setAttribute("aria-pressed", String(i === at)));
    mark();
    find("sentences").replaceChildren(...chips);
    timer = setTimeout(look, SETTLED);
  }

  addEventListener("hashchange", () => {
    const wanted = read();
    if (wanted.view !== place.view) views.open(wanted.view);
    place.sentence = wanted.sentence;
    texts.set(wanted);
  });
  for (const event of ["change", "submit"]) find("key").addEventListener(event, (given) => {
    given.preventDefault();
    key.value = find("key").querySelector("input").value.trim();
    texts.again();
  });
}

// Who serves: the models, in a line; and a place for a key where one is asked for.
function serve(info) {
  const count = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : `${Math.round(n / 1e3)} k`);
  const told = info.models.map(({ name, source, target, parameters, layers, heads, engine }) =>
    `${name}: ${source} → ${target}, ${layers.encoder} + ${layers.decoder} layers of ${heads} heads, ${count(parameters)} parameters, ${engine}`);
  find("served").textContent = info.models.length > 1 ? `${info.models.length} models, ${info.languages.length} languages` : told[0];
  find("served").title = told.join("\n");
  find("key").hidden = !info.key_required;
  find("other").hidden = !info.writers.length;
}

// keyed: whether the server asks for a key; which one it is is not shown.
function snippet(keyed) {
  let body = null;
  let language = "curl";
  const show = () => { find("snippet").textContent = LANGUAGES[language](location.origin, body); };
  const names = choice("Language of the request", Object.keys(LANGUAGES).map((name) => [name, name]), language, (name) => {
    language = name;
    names.set(name);
    show();
  });
  find("languages").classList.add("r-view");
  find("languages").append(names.element);
  find("copy-request").addEventListener("click", (event) => copied(event.currentTarget, find("snippet").textContent));
  return ({ text, source, target }) => {
    body = { q: text, source, target, ...(keyed ? { api_key: "your-key" } : {}) };
    show();
  };
}

function problem(error) {
  find("problem").hidden = !error;
  find("problem").textContent = error ? error.message : "";
}
