// The blackboard of the six steps: a table with a row for each key, and each step said in words with its numbers.
import { button, el, number, range } from "regard/dom.js";
import { largest, strip } from "regard/strip.js";

export const TITLES = ["q, k, v", "q · k", "÷ √dₖ", "softmax", "× v", "sum"];

const FIRST = 4; // numbers of a vector that are written out in a sentence

const short = (x) => number(x, Number.isInteger(x) ? 0 : 2);

// work: what attend() gives. names: of the keys. onPick(j): a key was chosen. Every cell says at which step it appears.
export function boardOf(root, work, names, language, onPick) {
  const over = (vectors) => Math.max(...vectors.map(largest));
  const most = {
    q: largest(work.query), k: over(work.keys), v: over(work.values), out: over([...work.weighted, work.sum]),
  };
  const masked = work.masks.some(Boolean);
  const cell = (step, ...children) => el("td", { "data-step": step }, ...children);
  const vector = (step, values, scale, name) =>
    el("td", { "data-step": step, class: "vector" }, strip(root, values, scale, name));
  const heading = (step, text, sort = "") => el("th", { scope: "col", "data-step": step, class: sort }, text);
  const headings = [
    heading(1, "key"), heading(1, "k", "vector"), heading(2, "q · k"), heading(3, `÷ ${short(Math.sqrt(work.width))}`),
    ...(masked ? [heading(4, "mask")] : []),
    heading(4, "softmax"), heading(1, "v", "vector"), heading(5, "softmax × v", "vector"),
  ];
  const rows = names.map((name, j) => {
    const pick = button(name, { dir: "auto", lang: language, "aria-pressed": "false" }, () => onPick(j));
    const bar = el("span", { class: "r-weight" });
    bar.style.setProperty("--w", String(work.weights[j]));
    const mask = [el("span", { class: "r-mask" }, work.masks[j] && "−∞"), el("small", {}, work.masks[j])];
    return el("tr", { class: work.masks[j] ? "masked" : "" },
      el("th", { scope: "row" }, pick),
      vector(1, work.keys[j], most.k, `k of ${name}`),
      cell(2, short(work.scores[j])),
      cell(3, short(work.scaled[j])),
      ...(masked ? [cell(4, ...mask)] : []),
      cell(4, bar, number(work.weights[j], 3)),
      vector(1, work.values[j], most.v, `v of ${name}`),
      vector(5, work.weighted[j], most.out, `softmax times v of ${name}`));
  });
  const sum = el("th", { scope: "row", colspan: headings.length - 1, "data-step": 6 }, "the head's output, the sum");
  return el("table", { class: "r-steps" },
    el("thead", {},
      el("tr", {}, el("th", { scope: "row" }, "q"), vector(1, work.query, most.q, "q")),
      el("tr", {}, ...headings)),
    el("tbody", {}, ...rows),
    el("tfoot", {}, el("tr", {}, sum, vector(6, work.sum, most.out, "the sum"))));
}

// A step (1 to 6) as the parts of a sentence: for the chosen key, or for the two with most weight.
export function sentence(step, work, name, keys, chosen) {
  const order = range(keys.length).filter((j) => !work.masks[j]).sort((a, b) => work.weights[b] - work.weights[a]);
  const told = chosen >= 0 ? [chosen] : order.slice(0, 2).sort((a, b) => a - b);
  const each = (value) => told.flatMap((j, n) => [n ? " and " : "", [value(j)], ` for ${keys[j]}`]);
  const says = {
    1: () => [`${name} has a query; every piece it may look at has a key and a value. Each is ${work.width} numbers: `
      + "what the piece holds, times a matrix that was learned."],
    2: () => [`Query times key, number by number, summed: ${products(work, told[0])} = `,
      ...each((j) => short(work.scores[j]))],
    3: () => [`Divided by the square root of ${work.width}, ${short(Math.sqrt(work.width))}, so that scores do not grow `
      + "with the width: ", ...each((j) => short(work.scaled[j]))],
    4: () => [...hidden(work), "e to the power of each, divided by their sum, so that all add up to 1: ",
      ...each((j) => number(work.weights[j]))],
    5: () => ["Each value times its weight: what matters little fades. ", ...each((j) => `${number(work.weights[j])} × v`)],
    6: () => [`Added up, they are what this head passes on for ${name}: `, [first(work.sum)]],
  };
  return [[`${step} `], ...says[step]()];
}

// The first of some numbers, and a sign if there are more.
const some = (texts, between) => [...texts.slice(0, FIRST), ...(texts.length > FIRST ? ["…"] : [])].join(between);

const products = ({ query, keys }, j) => some([...query].map((x, n) => `${short(x)}·${short(keys[j][n])}`), " + ");

const first = (values) => `(${some([...values].map((x) => number(x)), ", ")})`;

function hidden({ masks }) {
  const count = masks.filter(Boolean).length;
  if (!count) return [];
  const why = masks.includes("padding") ? "no word stands there" : count > 1 ? "they come later" : "it comes later";
  return [`${count} of the keys ${count > 1 ? "are" : "is"} hidden: ${why}, so the score becomes −∞ and the weight 0. `];
}

// Every number, as text.
export function allNumbers(work, name, keys) {
  const line = (title, values) => el("p", {}, el("b", {}, title), ` ${[...values].map(short).join("  ")}`);
  return [
    el("summary", {}, `All numbers of ${name}`),
    line("q", work.query),
    ...keys.flatMap((each, j) => [line(`k of ${each}`, work.keys[j]), line(`v of ${each}`, work.values[j])]),
    line("sum", work.sum),
  ];
}
