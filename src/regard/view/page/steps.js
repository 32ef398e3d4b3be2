// Six steps: what one head does for one token, with the model's own numbers, as lectures do it on the board.
// Data: axes; steps {parts: [{kind, layer, heads, causal, real, q, k, v}], note, examples {tokens, cases}}, unpacked.
// options.load(kind, layer, head): a promise of a further part, where the data does not hold them all (a server).
import { KINDS, part } from "regard/data.js";
import { button, choice, el, number, onTheme, range, say, select, tokens, view } from "regard/dom.js";
import { largest, strip } from "regard/strip.js";

const VECTORS = ["k", "v", "softmax × v"]; // columns
const TITLES = ["q, k, v", "q · k", "÷ √dₖ", "softmax", "× v", "sum"];

const short = (x) => number(x, Number.isInteger(x) ? 0 : 2);

// softmax(q k^T / sqrt(d_k)) v for one query, with everything on the way. Hidden keys get no weight.
export function workOut({ q, k, v, causal, real }, head, token) {
  const [Q, K, V] = [part(q, head), part(k, head), part(v, head)];
  const width = Q.width;
  const rowOf = (m, i) => m.values.subarray(i * width, (i + 1) * width);
  const query = rowOf(Q, token);
  const keys = range(K.height).map((j) => rowOf(K, j));
  const values = range(K.height).map((j) => rowOf(V, j));
  const scores = keys.map((key) => key.reduce((sum, x, n) => sum + x * query[n], 0));
  const scaled = scores.map((score) => score / Math.sqrt(width));
  const masks = keys.map((_, j) => (causal && j > token + K.height - Q.height ? "future" : j >= real ? "padding" : ""));
  const most = Math.max(...scaled.filter((_, j) => !masks[j]));
  const powers = scaled.map((x, j) => (masks[j] ? 0 : Math.exp(x - most)));
  const total = powers.reduce((a, b) => a + b, 0);
  const weights = powers.map((x) => x / total);
  const weighted = values.map((value, j) => Float64Array.from(value, (x) => x * weights[j]));
  const sum = range(width).map((n) => weighted.reduce((all, value) => all + value[n], 0));
  return { query, keys, values, scores, scaled, masks, weights, weighted, sum, width };
}

export const mount = view((root, data, options) => {
  const { parts, examples, note } = data.steps;
  const places = options.load ? placesOf(data) : parts.map(({ kind, layer, heads }) => ({ kind, layer, heads }));
  const kinds = Object.keys(KINDS).filter((kind) => places.some((p) => p.kind === kind));
  let own = places.length > 0; // this sentence, or the example
  let mask = "plain";
  let kind = kinds.includes("encoder") ? "encoder" : kinds[0];
  let layer = places.find((p) => p.kind === kind)?.layer ?? 0;
  let head = 0;
  let token = 0;
  let key = -1; // whose product is written out
  let step = 6;

  const which = choice("Example", [[true, "This sentence"], [false, "Thinking Machines"]], own, (value) => { own = value; token = 0; step = value ? 6 : 1; change(); });
  const maskOf = choice("Mask", [["plain", "No mask"], ["causal", "Causal mask"], ["padding", "Padding mask"]], mask, (value) => { mask = value; token = 0; change(); });
  const kindOf = choice("Kind of attention", kinds.map((name) => [name, KINDS[name].name]), kind, (value) => {
    kind = value;
    token = 0;
    const layers = layersOf();
    if (!layers.includes(layer)) layer = layers[0];
    change();
  });
  const layerOf = select("Layer", [], 0, (value) => { layer = value; change(); });
  const headOf = select("Head", [], 0, (value) => { head = value; change(); });
  const asking = el("div");
  const stages = TITLES.map((title, i) => button("", { "aria-label": `Step ${i + 1}, ${title}` }, () => go(i + 1)));
  stages.forEach((stage, i) => stage.append(el("span", {}, String(i + 1)), TITLES[i]));
  const back = button("‹", { class: "r-quiet", "aria-label": "Step before" }, () => go(step - 1));
  const on = button("›", { class: "r-quiet", "aria-label": "Next step" }, () => go(step + 1));
  const row = el("div", { class: "r-stages", role: "group", "aria-label": "Steps" }, back, ...stages, on);
  const told = el("p", { class: "r-told", "aria-live": "polite" });
  const board = el("div", { class: "r-board" });
  const all = el("details", { class: "r-details" });
  root.append(
    el("p", { class: "r-lead" }, "What one head does for one piece: it asks with a query, is answered by every key, and takes the values in that measure."),
    el("div", { class: "r-controls" }, ...(places.length ? [which.element] : []), maskOf.element, kindOf.element, layerOf.element, headOf.element),
    el("p", { class: "r-note" }, note || ""),
    asking,
    row, told, board, all,
  );

  const layersOf = () => places.filter((p) => p.kind === kind).map((p) => p.layer);

  async function current() {
    if (!own) return examples.cases[mask];
    const found = parts.find((p) => p.kind === kind && p.layer === layer && p.heads.includes(head));
    if (found) return found;
    const loaded = await options.load(kind, layer, head);
    parts.push(loaded);
    return loaded;
  }

  let turn = 0;
  async function change() {
    const mine = ++turn;
    which.set(own);
    maskOf.set(mask);
    for (const control of [kindOf, layerOf, headOf]) control.element.hidden = !own;
    maskOf.element.hidden = own;
    let found;
    try {
      found = await current();
    } catch (error) {
      return say(told, `The numbers could not be loaded: ${error.message}`);
    }
    if (mine !== turn) return;
    const heads = own ? places.find((p) => p.kind === kind && p.layer === layer).heads : [0];
    if (!heads.includes(head)) head = heads[0];
    if (own) {
      kindOf.set(kind);
      layerOf.set(layersOf().map((l) => [l, String(l + 1)]), layer);
      headOf.set(heads.map((h) => [h, String(h + 1)]), head);
    }
    key = -1;
    draw(found);
  }

  let drawn = null;
  function draw(found) {
    const { queries, keys, languages } = labels(found);
    token = Math.min(token, queries.length - 1);
    const work = workOut(found, own ? found.heads.indexOf(head) : 0, token);
    drawn = { found, work, queries, keys };
    const picked = tokens("Piece that looks", queries, { lang: languages[0] }, (i) => { token = i; key = -1; draw(found); asking.querySelector("[aria-pressed=true]").focus(); });
    picked.set(token);
    asking.replaceChildren(el("p", { class: "r-over" }, own ? `${KINDS[kind].name}: which piece looks?` : "Which word looks?"), picked.element);
    table(work, keys, languages[1]);
    numbers(work, queries[token], keys);
    go(step);
  }

  function labels(found) {
    if (!own) {
      const names = examples.tokens.slice(0, found.k.shape[1]);
      return { queries: names.slice(0, 2), keys: names, languages: ["en", "en"] };
    }
    const { queries, keys } = data.attention[kind];
    const language = (side) => data.languages[side === "source" ? 0 : 1] || "";
    const padding = Array(found.k.shape[1] - data.axes[keys].labels.length).fill("<pad>"); // of a sentence from a batch
    return { queries: data.axes[queries].labels, keys: [...data.axes[keys].labels, ...padding], languages: [language(queries), language(keys)] };
  }

  function table(work, keys, language) {
    const over = (vectors) => Math.max(...vectors.map(largest));
    const most = { q: largest(work.query), k: over(work.keys), v: over(work.values), out: over([...work.weighted, work.sum]) };
    const masked = work.masks.some(Boolean);
    const cell = (at, ...children) => el("td", { "data-step": at, class: children[0].tagName === "CANVAS" ? "vector" : "" }, ...children);
    const headings = [["key", 1], ["k", 1], ["q · k", 2], [`÷ ${short(Math.sqrt(work.width))}`, 3], ...(masked ? [["mask", 4]] : []), ["softmax", 4], ["v", 1], ["softmax × v", 5]];
    const rows = keys.map((name, j) => {
      const pick = button(name, { dir: "auto", lang: language, "aria-pressed": "false" }, () => { key = key === j ? -1 : j; go(step); });
      const bar = el("span", { class: "r-weight" });
      bar.style.setProperty("--w", String(work.weights[j]));
      return el("tr", { class: work.masks[j] ? "masked" : "" },
        el("th", { scope: "row" }, pick),
        cell(1, strip(root, work.keys[j], most.k, `k of ${name}`)),
        cell(2, short(work.scores[j])),
        cell(3, short(work.scaled[j])),
        ...(masked ? [cell(4, el("span", { class: "r-mask" }, work.masks[j] && "−∞"), el("small", {}, work.masks[j]))] : []),
        cell(4, bar, number(work.weights[j], 3)),
        cell(1, strip(root, work.values[j], most.v, `v of ${name}`)),
        cell(5, strip(root, work.weighted[j], most.out, `softmax times v of ${name}`)));
    });
    const span = headings.length - 2;
    board.replaceChildren(el("table", { class: "r-steps" },
      el("thead", {},
        el("tr", {}, el("th", { scope: "row" }, "q"), el("td", { class: "vector" }, strip(root, work.query, most.q, "q"))),
        el("tr", {}, ...headings.map(([text, at]) => el("th", { scope: "col", "data-step": at, class: VECTORS.includes(text) ? "vector" : "" }, text)))),
      el("tbody", {}, ...rows),
      el("tfoot", {}, el("tr", {}, el("th", { scope: "row", colspan: span + 1, "data-step": 6 }, "the head's output, the sum"),
        cell(6, strip(root, work.sum, most.out, "the sum"))))));
  }

  function go(to) {
    step = Math.max(1, Math.min(6, to));
    stages.forEach((stage, i) => {
      stage.setAttribute("aria-pressed", String(i + 1 === step));
      stage.classList.toggle("done", i + 1 < step);
    });
    row.scrollLeft = stages[step - 1].offsetLeft - row.offsetLeft - row.clientWidth / 2;
    back.disabled = step === 1;
    on.disabled = step === 6;
    board.querySelectorAll("[data-step]").forEach((each) => {
      each.classList.toggle("later", Number(each.dataset.step) > step);
      each.classList.toggle("now", Number(each.dataset.step) === step);
    });
    board.querySelectorAll("tbody button").forEach((each, j) => each.setAttribute("aria-pressed", String(j === key)));
    say(told, ...sentence());
  }

  // The step in words, with its numbers.
  function sentence() {
    const { work, queries, keys } = drawn;
    const name = queries[token];
    const order = range(keys.length).filter((j) => !work.masks[j]).sort((a, b) => work.weights[b] - work.weights[a]);
    const best = key >= 0 ? [key] : order.slice(0, 2).sort((a, b) => a - b);
    const list = (value) => best.flatMap((j, n) => [n ? " and " : "", [value(j)], ` for ${keys[j]}`]);
    const j = best[0];
    const root_ = Math.sqrt(work.width);
    const hidden = work.masks.filter(Boolean).length;
    const why = work.masks.includes("padding") ? "no word stands there" : "they come later";
    const product = `${range(4).map((n) => `${short(work.query[n])}·${short(work.keys[j][n])}`).join(" + ")} + …`;
    return [
      [["1 "], `${name} has a query; every piece it may look at has a key and a value. Each is ${work.width} numbers: what the piece holds, times a matrix that was learned.`],
      [["2 "], `Query times key, number by number, summed: ${product} = `, ...list((i) => short(work.scores[i]))],
      [["3 "], `Divided by the square root of ${work.width}, ${short(root_)}, so that scores do not grow with the width: `, ...list((i) => short(work.scaled[i]))],
      [["4 "], ...(hidden ? [`${hidden} of the keys ${hidden > 1 ? "are" : "is"} hidden: ${why}, so the score becomes −∞ and the weight 0. `] : []), "e to the power of each, divided by their sum, so that all add up to 1: ", ...list((i) => number(work.weights[i]))],
      [["5 "], "Each value times its weight: what matters little fades. ", ...list((i) => `${number(work.weights[i])} × v`)],
      [["6 "], `Added up, they are what this head passes on for ${name}: `, [`(${[...work.sum].slice(0, 4).map((x) => number(x)).join(", ")}, …)`]],
    ][step - 1];
  }

  function numbers(work, name, keys) {
    const line = (title, values) => el("p", {}, el("b", {}, title), " ", [...values].map((x) => short(Math.abs(x) < 1e-12 ? 0 : x)).join("  "));
    all.replaceChildren(
      el("summary", {}, `All numbers of ${name}`),
      line("q", work.query),
      ...keys.flatMap((each, j) => [line(`k of ${each}`, work.keys[j]), line(`v of ${each}`, work.values[j])]),
      line("sum", work.sum),
    );
  }

  const end = onTheme(() => drawn && draw(drawn.found));
  change();
  return end;
});

const placesOf = (data) => Object.keys(data.attention).flatMap((kind) => {
  const { weights } = data.attention[kind];
  const [layers, heads] = Array.isArray(weights) ? [weights.length, weights[0].length] : weights.shape;
  return range(layers).map((layer) => ({ kind, layer, heads: range(heads) }));
});
