// Six steps: what one head does for one token, with the model's own numbers, as lectures do it on the board.
// Data: axes; steps {parts: [{kind, layer, heads, causal, real, q, k, v}], note, examples {tokens, cases}}, unpacked.
// options.load(kind, layer, head): a promise of a further part, where the data does not hold them all (a server).
import { attend } from "regard/attend.js";
import { allNumbers, boardOf, sentence, TITLES } from "regard/board.js";
import { KINDS } from "regard/data.js";
import { button, choice, clamp, el, live, onTheme, para, range, say, select, tokens, view } from "regard/dom.js";

export const mount = view((root, data, options) => {
  const { parts, examples, note } = data.steps;
  const loading = options.load && note; // a note says that not all are here
  const places = loading ? placesOf(data) : parts;
  const kinds = Object.keys(KINDS).filter((kind) => places.some((p) => p.kind === kind));
  const at = {
    own: places.length > 0, // this sentence, or the example
    mask: "plain",
    kind: kinds.includes("encoder") ? "encoder" : kinds[0],
    layer: [...parts, ...places][0]?.layer ?? 0,
    head: 0,
    token: 0,
    key: -1, // whose product is written out
    step: 6,
  };
  let drawn = null;
  let turn = 0;

  const choose = (changes) => {
    Object.assign(at, { key: -1 }, changes);
    change();
  };
  const masks = [["plain", "No mask"], ["causal", "Causal mask"], ["padding", "Padding mask"]];
  const which = choice("Example", [[true, "This sentence"], [false, "Thinking Machines"]], at.own,
    (own) => choose({ own, token: 0, step: own ? 6 : 1 }));
  const maskOf = choice("Mask", masks, at.mask, (mask) => choose({ mask, token: 0 }));
  const kindOf = choice("Kind of attention", kinds.map((kind) => [kind, KINDS[kind].name]), at.kind,
    (kind) => choose({ kind, token: 0 }));
  const layerOf = select("Layer", [], 0, (layer) => choose({ layer }));
  const headOf = select("Head", [], 0, (head) => choose({ head }));
  const asking = el("div");
  const stages = TITLES.map((title, i) => {
    const stage = button("", { "aria-label": `Step ${i + 1}, ${title}` }, () => go(i + 1));
    stage.append(el("span", {}, String(i + 1)), title);
    return stage;
  });
  const back = button("‹", { class: "r-quiet", "aria-label": "Step before" }, () => go(at.step - 1));
  const on = button("›", { class: "r-quiet", "aria-label": "Next step" }, () => go(at.step + 1));
  const row = el("div", { class: "r-stages", role: "group", "aria-label": "Steps" }, back, ...stages, on);
  const told = live("told");
  const board = el("div", { class: "r-board" });
  const all = el("details", { class: "r-details" });
  which.element.hidden = !places.length;
  root.append(
    para("lead", "What one head does for one piece: it asks with a query, is answered by every key, and takes the values "
      + "in that measure."),
    el("div", { class: "r-controls" }, which.element, maskOf.element, kindOf.element, layerOf.element, headOf.element),
    para("note", loading ? "" : note || ""), asking, row, told, board, all,
  );

  const found = () => parts.find((p) => p.kind === at.kind && p.layer === at.layer && p.heads.includes(at.head));

  async function current() {
    if (!at.own) return examples.cases[at.mask];
    if (!found()) {
      say(told, "Asking for its numbers …");
      parts.push(await options.load(at.kind, at.layer, at.head));
    }
    return found();
  }

  // Draws what is chosen, once its numbers are there; what was chosen meanwhile goes first.
  async function change() {
    const mine = ++turn;
    settle();
    try {
      const part = await current();
      if (mine === turn) draw(part);
    } catch (error) {
      if (mine === turn) say(told, `The numbers could not be loaded: ${error.message}`);
    }
  }

  // The controls, and a layer and head that there are.
  function settle() {
    which.set(at.own);
    maskOf.set(at.mask);
    maskOf.element.hidden = at.own;
    for (const control of [kindOf, layerOf, headOf]) control.element.hidden = !at.own;
    if (!at.own) return;
    const layers = places.filter((p) => p.kind === at.kind);
    if (!layers.some((p) => p.layer === at.layer)) at.layer = layers[0].layer;
    const { heads } = layers.find((p) => p.layer === at.layer);
    if (!heads.includes(at.head)) at.head = heads[0];
    kindOf.set(at.kind);
    layerOf.set(layers.map((p) => [p.layer, String(p.layer + 1)]), at.layer);
    headOf.set(heads.map((h) => [h, String(h + 1)]), at.head);
  }

  function draw(part) {
    const { queries, keys, languages } = labels(part);
    at.token = Math.min(at.token, queries.length - 1);
    const work = attend(part, at.own ? part.heads.indexOf(at.head) : 0, at.token);
    drawn = { part, work, name: queries[at.token], keys };
    const picked = tokens("Piece that looks", queries, { lang: languages[0] }, (token) => {
      Object.assign(at, { token, key: -1 });
      draw(part);
      asking.querySelector("[aria-pressed=true]").focus();
    });
    picked.set(at.token);
    asking.replaceChildren(para("over", at.own ? `${KINDS[at.kind].name}: which piece looks?` : "Which word looks?"), picked.element);
    board.replaceChildren(boardOf(root, work, keys, languages[1], (j) => {
      at.key = at.key === j ? -1 : j;
      go(at.step);
    }));
    all.replaceChildren(...allNumbers(work, drawn.name, keys));
    go(at.step);
  }

  function labels(part) {
    if (!at.own) {
      const names = examples.tokens.slice(0, part.k.shape[1]);
      return { queries: names.slice(0, 2), keys: names, languages: ["en", "en"] };
    }
    const { queries, keys } = data.attention[at.kind];
    const named = data.axes[keys].labels;
    const padding = Array(part.k.shape[1] - named.length).fill("<pad>"); // of a sentence from a batch
    const languages = [queries, keys].map((side) => data.languages[side === "source" ? 0 : 1] || "");
    return { queries: data.axes[queries].labels, keys: [...named, ...padding], languages };
  }

  // Shows the board up to a step, and says that step.
  function go(to) {
    at.step = clamp(to, 1, 6);
    stages.forEach((stage, i) => {
      stage.setAttribute("aria-pressed", String(i + 1 === at.step));
      stage.classList.toggle("done", i + 1 < at.step);
    });
    row.scrollLeft = stages[at.step - 1].offsetLeft - row.offsetLeft - row.clientWidth / 2;
    back.disabled = at.step === 1;
    on.disabled = at.step === 6;
    for (const each of board.querySelectorAll("[data-step]")) {
      each.classList.toggle("later", Number(each.dataset.step) > at.step);
      each.classList.toggle("now", Number(each.dataset.step) === at.step);
    }
    board.querySelectorAll("tbody button").forEach((each, j) => each.setAttribute("aria-pressed", String(j === at.key)));
    say(told, ...sentence(at.step, drawn.work, drawn.name, drawn.keys, at.key));
  }

  change();
  return onTheme(() => drawn && draw(drawn.part));
});

// Every layer and head, where numbers are loaded as they are asked for.
const placesOf = (data) => Object.entries(data.attention).flatMap(([kind, { weights }]) => {
  const [layers, heads] = Array.isArray(weights) ? [weights.length, weights[0].length] : weights.shape;
  return range(layers).map((layer) => ({ kind, layer, heads: range(heads) }));
});
