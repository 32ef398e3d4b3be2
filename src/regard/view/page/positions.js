// Positions: the vectors that stand for word order as a heat map, and the dot products between them.
// Data: positions {kind: sinusoidal | learned | rotary | none, table: T x D or null}, unpacked.
import { part } from "regard/data.js";
import { el, number, range, say, slider, svg, view } from "regard/dom.js";
import { heat } from "regard/heat.js";

const LEADS = {
  sinusoidal: "Each position has a vector of sines and cosines, from fast waves on the left to slow ones on the right. It is added to what the word means.",
  learned: "Each position has a vector that was learned. It is added to what the word means.",
  rotary: "Nothing is added to the words. In every head, pairs of a query's and a key's numbers are turned by an angle that grows with the position; here are the sines and cosines of those angles.",
  none: "This model knows no word order: nothing tells it where a word stands.",
};

export const mount = view((root, data) => {
  const { kind, table } = data.positions;
  root.append(el("p", { class: "r-lead" }, LEADS[kind]));
  if (!table) return () => {};
  const matrix = part(table);
  const { height, width, values } = matrix;
  const at = (p, d) => values[p * width + d];
  const products = new Float32Array(height * height);
  for (let p = 0; p < height; p++) {
    for (let q = 0; q <= p; q++) {
      let sum = 0;
      for (let d = 0; d < width; d++) sum += at(p, d) * at(q, d);
      products[p * height + q] = products[q * height + p] = sum;
    }
  }
  let chosen = Math.min(10, height - 1);
  const [left, right] = [el("div"), el("div")];
  const curve = el("div", { class: "r-curve" });
  const told = el("p", { class: "r-read", "aria-live": "polite" });
  const pick = slider("Position", { least: 0, most: height - 1, step: 1, value: chosen, shown: (p) => number(p, 0) }, point);
  const column = (title, lead, place) => el("section", {}, el("h3", {}, title), el("p", { class: "r-small" }, lead), place);
  root.append(
    el("div", { class: "r-two" },
      el("div", {},
        column("The vectors", `Positions 0 to ${height - 1} downwards, their ${width} numbers across.`, left),
        el("section", { class: "r-apart" }, el("h3", {}, "One position with all"), el("div", { class: "r-controls" }, pick.element), curve, told)),
      column("Dot products", kind === "learned" ? "Of each position's vector with each other's." : "Of each position's vector with each other's: they depend on the distance alone, and fall with it.", right)),
  );

  const formula = (p, d) => {
    if (kind === "learned") return [];
    return [`${d % 2 ? "cos" : "sin"}(${p} / 10000^(${d - (d % 2)}/${width})) = `];
  };
  const first = heat(left, {
    label: "Heat map of position vectors.", signed: true, named: false,
    hint: "Point at a cell, or tap it, for its number.",
    describe: (p, d, value) => ["position ", [String(p)], ", number ", [String(d)], ": ", ...formula(p, d), [number(value, 3)]],
    onChoose: (cell) => cell && point(cell[0]),
  });
  const second = heat(right, {
    label: "Heat map of dot products between positions.", signed: true, named: false,
    hint: "Point at a cell, or tap it, for its number.",
    describe: (p, q, value) => ["position ", [String(p)], " with ", [String(q)], ": ", [number(value, 1)]],
    onChoose: (cell) => cell && point(cell[0]),
  });
  const most = products.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const names = range(height).map(String);
  first.set({ matrix, rows: names, columns: range(width).map(String), most: kind === "learned" ? values.reduce((a, b) => Math.max(a, Math.abs(b)), 0) : 1 });
  second.set({ matrix: { values: products, height, width: height }, rows: names, columns: names, most });

  function point(position) {
    chosen = position;
    draw();
  }

  function draw() {
    pick.set(chosen);
    const line = range(height).map((q) => products[chosen * height + q]);
    const [low, high] = [Math.min(0, ...line), Math.max(...line)];
    const y = (v) => 110 - (100 * (v - low)) / (high - low);
    const picture = svg("svg", { viewBox: `0 0 ${(height - 1) * 10} 120`, preserveAspectRatio: "none", role: "img", "aria-label": `Dot products of position ${chosen} with positions 0 to ${height - 1}` },
      svg("path", { class: "zero", d: `M0 ${y(0)}H${(height - 1) * 10}` }),
      svg("path", { class: "here", d: `M${chosen * 10} 0V120` }),
      svg("path", { class: "line", d: `M${line.map((v, q) => `${q * 10} ${y(v).toFixed(2)}`).join("L")}` }));
    curve.replaceChildren(picture, el("p", { class: "r-ends", "aria-hidden": "true" }, el("span", {}, "0"), el("span", {}, String(height - 1))));
    const next = chosen + 1 < height ? chosen + 1 : chosen - 1;
    say(told, "Position ", [String(chosen)], " with itself: ", [number(line[chosen], 1)], `, with ${next}: `, [number(line[next], 1)]);
  }

  draw();
  return () => {
    first.destroy();
    second.destroy();
  };
});
