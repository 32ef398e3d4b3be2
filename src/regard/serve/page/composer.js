// The two texts: languages, what is written, its translation with its confidence, and other translations.
import { button, el, number } from "regard/dom.js";
import { post } from "./api.js";

const WAIT = 220; // milliseconds without a key pressed before a translation is asked for
const AUTO = "auto";
const ALTERNATIVES = 3;
const MANY = 12; // unknown words that are named
// Short ones that small models know too: lower case, no full stop.
const EXAMPLES = {
  en: ["the animal didn't cross the street because it was too tired", "this cat is very large", "my cow crossed the park because it was open"],
  de: ["zwei hunde rennen durch den park", "eine frau liest ein buch"],
  es: ["este gato es muy grande", "la mujer lee un libro"],
  fr: ["ce chat est très grand", "une femme lit un livre"],
};

// place: {text, source, target}. told.translated(found or null), told.problem(error or null).
export function composer(root, info, place, told) {
  const find = (name) => root.querySelector(`[data-${name}]`);
  const [text, source, target, output] = ["text", "source", "target", "translation"].map(find);
  const names = new Map(info.languages.map(({ code, name }) => [code, name]));
  const reached = new Map(info.languages.map(({ code, targets }) => [code, targets]));
  const sources = info.languages.filter(({ targets }) => targets.length).map(({ code }) => code);
  let waiting = null; // a timer
  let asked = null; // an AbortController
  let found = null;
  let chosen = null; // the alternative that an address asks for

  const fill = (list, codes, chosen) => {
    list.replaceChildren(...codes.map((code) => el("option", { value: code }, code === AUTO ? "Detect language" : names.get(code))));
    list.value = codes.includes(chosen) ? chosen : codes[0];
  };
  const fromAll = () => [...new Set(sources.flatMap((code) => reached.get(code)))];
  const fillTargets = (chosen) => fill(target, source.value === AUTO ? fromAll() : reached.get(source.value), chosen);

  function changed(now) {
    clearTimeout(waiting);
    asked?.abort();
    lay();
    if (!text.value.trim()) {
      told.problem(null);
      return show(null);
    }
    output.classList.add("old");
    waiting = setTimeout(translate, now ? 0 : WAIT);
  }

  async function translate() {
    asked = new AbortController();
    const body = { text: text.value, source: source.value, target: target.value, alternatives: Math.min(ALTERNATIVES, info.limits.alternatives) };
    try {
      show({ ...(await post("/api/translate", body, asked.signal)), asked: body });
      told.problem(null);
    } catch (error) {
      if (error.name === "AbortError") return;
      show(null);
      told.problem(error);
    }
  }

  function show(next) {
    found = next;
    output.classList.remove("old");
    output.textContent = "";
    output.lang = target.value;
    find("detected").textContent = found?.detected ? `${names.get(found.detected.language)}, ${Math.round(found.detected.confidence)} % sure` : "";
    find("copy").hidden = !found;
    const unknown = found ? found.unknown : [];
    find("unknown").hidden = !unknown.length;
    find("unknown").textContent = `The model does not know: ${unknown.slice(0, MANY).join("  ")}${unknown.length > MANY ? " …" : ""}`;
    find("confidence").hidden = !found;
    const others = found ? found.translations.slice(1) : [];
    find("alternatives").replaceChildren(...others.map((other) => {
      const choose = button(other.text, { dir: "auto", lang: target.value, title: "Look into this one; again for the best" }, () =>
        pick(choose.getAttribute("aria-pressed") === "true" ? found.translations[0] : other));
      return el("li", {}, choose, el("small", { title: "Confidence" }, number(other.confidence)));
    }));
    const wanted = others.find((other) => other.text === chosen);
    chosen = null;
    if (found) pick(wanted || found.translations[0]);
    else told.translated(null);
    lay(); // a language was detected, or is not any more
  }

  // One of the translations: it is shown, and looked into.
  function pick(one) {
    const best = one === found.translations[0];
    output.textContent = one.text;
    find("confidence").replaceChildren(...meter(one.confidence));
    find("alternatives").querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b.textContent === one.text)));
    told.translated({ ...found, chosen: best ? null : one });
  }

  function lay() {
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight}px`;
    const [length, most] = [[...text.value].length, info.limits.characters]; // as the server counts
    find("count").textContent = length > 0.8 * most || length > 200 ? `${length} / ${most}` : "";
    find("count").classList.toggle("over", length > most);
    find("clear").hidden = !length;
    find("examples").hidden = length > 0;
    text.lang = source.value === AUTO ? "" : source.value;
    const from = source.value === AUTO ? found?.detected?.language : source.value;
    find("swap").disabled = !from || !(reached.get(target.value) || []).includes(from);
  }

  function offerExamples() {
    const language = source.value === AUTO ? sources[0] : source.value;
    const list = (EXAMPLES[language] || []).map((example) => button(example, { lang: language }, () => set({ text: example })));
    find("examples").replaceChildren(...(list.length ? [el("span", {}, "Try"), ...list] : []));
  }

  function set({ text: given = text.value, source: from = source.value, target: to = target.value, translation = null }) {
    text.value = given;
    chosen = translation;
    fill(source, sources.length > 1 ? [AUTO, ...sources] : sources, from);
    fillTargets(to);
    offerExamples();
    changed(true);
  }

  text.addEventListener("input", () => changed(false));
  source.addEventListener("change", () => set({}));
  target.addEventListener("change", () => changed(true));
  find("clear").addEventListener("click", () => { set({ text: "" }); text.focus(); });
  find("swap").addEventListener("click", () => {
    const from = source.value === AUTO ? found?.detected?.language : source.value;
    set({ text: output.textContent || text.value, source: target.value, target: from });
  });
  find("copy").addEventListener("click", (event) => copied(event.currentTarget, output.textContent));
  addEventListener("resize", lay);
  const [first] = info.models;
  set({ source: first.source, target: first.target, ...place });
  return { set, again: () => changed(true), place: () => ({ text: text.value, source: source.value, target: target.value }) };
}

function meter(confidence) {
  const bar = el("i", {});
  bar.style.inlineSize = `${Math.round(100 * confidence)}%`;
  return [el("span", { class: "meter", "aria-hidden": "true" }, bar), el("span", { title: "The geometric mean of its pieces' probabilities" }, `confidence ${number(confidence)}`)];
}

export async function copied(pressed, text) {
  pressed.dataset.label ??= pressed.textContent;
  try {
    await navigator.clipboard.writeText(text);
    pressed.textContent = "Copied";
  } catch { // over plain http there is no clipboard; what is selected can be copied there too
    const area = el("textarea", { class: "unseen" }, text);
    document.body.append(area);
    area.select();
    pressed.textContent = document.execCommand("copy") ? "Copied" : "Not allowed here";
    area.remove();
    pressed.focus();
  }
  setTimeout(() => { pressed.textContent = pressed.dataset.label; }, 1400);
}
