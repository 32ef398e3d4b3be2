// Positions: the vectors that stand for word order as a heat map, and the dot products between them.
// Data: positions {kind: sinusoidal | learned | rotary | none, table: T x D or null}, unpacked.
import { part } from "regard/data.js";
import { el, live, number, para, range, say, slider, svg, view } from "regard/dom.js";
import { heat } from "regard/heat.js";
import { largest } from "regard/strip.js";

const LEADS = {
  sinusoidal: "Each position has a vector of sines and cosines, from fast waves on the left to slow ones on the right. "
    + "It is added to what the word means.",
  learned: "Each position has a vector that was learned. It is added to what the word means.",
  rotary: "Nothing is added to the words. In every head, pairs of a query's and a key's numbers are turned by an angle that "
    + "grows with the position; here are the sines and cosines of those angles.",
  none: "This model knows no word order: nothing tells it where a word stands.",
};
const HINT = "Point at a cell, or tap it, for its number.";

export const mount = view((root, data) => {
  const { kind, table } = data.positions;
  root.append(para("lead", LEADS[kind]));
  if (!table) return () => {};
  const matrix = part(table);
  const { height, width } = matrix;
  const products = productsOf(matrix);
  let chosen = Math.min(10, height - 1);
  const [left, right] = [el("div"), el("div")];
  const curve = el("div", { class: "r-curve" });
  const told = live("read");
  const bounds = { least: 0, most: height - 1, step: 1, value: chosen, shown: (p) => number(p, 0) };
  const pick = slider("Position", bounds, point);
  const section = (title, lead, place) => el("section", {}, el("h3", {}, title), para("small", lead), place);
  const learned = kind === "learned";
  root.append(el("div", { class: "r-two" },
    el("div", {},
      section("The vectors", `Positions 0 to ${height - 1} downwards, their ${width} numbers across.`, left),
      el("section", { class: "r-apart" }, el("h3", {}, "One position with all"),
        el("div", { class: "r-controls" }, pick.element), curve, told)),
    section("Dot products", "Of each position's vector with each other's"
      + (learned ? "." : ": they depend on the distance alone, and fall with it."), right)));

  const wave = (p, d) => (learned ? "" : `${d % 2 ? "cos" : "sin"}(${p} / 10000^(${d - (d % 2)}/${width})) = `);
  const vectors = heat(left, {
    label: "Heat map of position vectors.", hint: HINT, signed: true, named: false,
    describe: (p, d, value) => ["position ", [`${p}`], ", number ", [`${d}`], ": ", wave(p, d), [number(value, 3)]],
    onChoose: (cell) => cell && point(cell[0]),
  });
  const pairs = heat(right, {
    label: "Heat map of dot products between positions.", hint: HINT, signed: true, named: false,
    describe: (p, q, value) => ["position ", [`${p}`], " with ", [`${q}`], ": ", [number(value, 1)]],
    onChoose: (cell) => cell && point(cell[0]),
  });
  vectors.set({ matrix, most: largest(matrix.values) });
  pairs.set({ matrix: products, most: largest(products.values) });

  function point(position) {
    chosen = position;
    draw();
  }

  function draw() {
    pick.set(chosen);
    const line = products.values.subarray(chosen * height, (chosen + 1) * height);
    const [low, high] = [Math.min(0, ...line), Math.max(...line)];
    const y = (v) => (110 - (100 * (v - low)) / (high - low)).toFixed(2);
    const end = (height - 1) * 10;
    const said = { role: "img", "aria-label": `Dot products of position ${chosen} with positions 0 to ${height - 1}` };
    curve.replaceChildren(
      svg("svg", { viewBox: `0 0 ${end} 120`, preserveAspectRatio: "none", ...said },
        svg("path", { class: "zero", d: `M0 ${y(0)}H${end}` }),
        svg("path", { class: "here", d: `M${chosen * 10} 0V120` }),
        svg("path", { class: "line", d: `M${Array.from(line, (v, q) => `${q * 10} ${y(v)}`).join("L")}` })),
      el("p", { class: "r-ends", "aria-hidden": "true" }, el("span", {}, "0"), el("span", {}, `${height - 1}`)));
    const next = chosen + 1 < height ? chosen + 1 : chosen - 1;
    say(told, "Position ", [`${chosen}`], " with itself: ", [number(line[chosen], 1)], `, with ${next}: `, [number(line[next], 1)]);
  }

  draw();
  return () => {
    vectors.destroy();
    pairs.destroy();
  };
});

// Each row with each other.
function productsOf({ values, height, width }) {
  const products = new Float32Array(height * height);
  for (const p of range(height)) {
    for (const q of range(p + 1)) {
      let sum = 0;
      for (let d = 0; d < width; d++) sum += values[p * width + d] * values[q * width + d];
      products[p * height + q] = products[q * height + p] = sum;
    }
  }
  return { values: products, height, width: height };
}
