// Norms: what layer normalisation does to one token's vector, beside what batch normalisation would do.
// Data: axes; norms {parts: [{label, side, eps, x: T x D, gain, bias}], note}, unpacked.
import { part } from "regard/data.js";
import { el, number, onTheme, range, say, select, slider, tokens, view } from "regard/dom.js";
import { bars, largest, strip } from "regard/strip.js";

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const variance = (values) => {
  const middle = mean(values);
  return mean(values.map((x) => (x - middle) ** 2));
};

// One row through layer norm and, among the first `count` rows, through batch norm.
export function normalise({ x, gain, bias, eps }, token, count) {
  const { values, width } = part(x);
  const rowOf = (i) => Array.from(values.subarray(i * width, (i + 1) * width));
  const mine = rowOf(token);
  const [middle, spread] = [mean(mine), Math.sqrt(variance(mine) + eps)];
  const centred = mine.map((v) => v - middle);
  const normed = centred.map((v) => v / spread);
  const output = normed.map((v, d) => v * gain.values[d] + bias.values[d]);
  const batch = [...new Set([token, ...range(count)])].slice(0, Math.max(1, count)).map(rowOf);
  const batched = mine.map((v, d) => {
    const column = batch.map((r) => r[d]);
    return (v - mean(column)) / Math.sqrt(variance(column) + eps);
  });
  return { mine, middle, spread, centred, normed, output, batched };
}

export const mount = view((root, data) => {
  const { parts, note } = data.norms;
  const lead = el("p", { class: "r-lead" }, "Layer norm takes one piece's vector, subtracts its mean and divides by its spread. Batch norm does so across pieces, one number of the vector at a time.");
  root.append(lead, el("p", { class: "r-note" }, note || ""));
  if (!parts.length) return () => {};
  let which = 0;
  let token = 0;
  let count = 0;
  const place = select("Norm", parts.map((p, i) => [i, p.label]), which, (value) => { which = value; change(); });
  const picking = el("div");
  const layer = el("section");
  const batch = el("section");
  const many = el("div");
  const strips = el("div", { class: "r-strips" });
  const told = el("p", { class: "r-read", "aria-live": "polite" });
  layer.append(el("h3", {}, "Layer norm"), el("p", { class: "r-small" }, "Over the numbers of this one piece; the others do not matter."), strips);
  const column = el("div", { class: "r-strips" });
  batch.append(el("h3", {}, "Batch norm, in its place"), el("p", { class: "r-small" }, "Over all pieces of the batch, for each number by itself: leave some out, and the result is another."), many, column);
  const whole = el("div", { class: "r-whole" });
  batch.append(el("p", { class: "r-small" }, "All pieces downwards, their numbers across: layer norm works along the row, batch norm down each column."), whole);
  root.append(el("div", { class: "r-controls" }, place.element), picking, told, el("div", { class: "r-two" }, layer, batch));

  function change() {
    const names = data.axes[parts[which].side].labels;
    token = Math.min(token, names.length - 1);
    count = names.length;
    const picked = tokens("Piece", names, { lang: data.languages[parts[which].side === "source" ? 0 : 1] || "" }, (i) => { token = i; picked.set(i); draw(); });
    picked.set(token);
    picking.replaceChildren(picked.element);
    const size = slider("Pieces in the batch", { least: 1, most: names.length, step: 1, value: count, shown: (n) => number(n, 0) }, (n) => { count = n; draw(); });
    many.replaceChildren(size.element);
    draw();
  }

  function draw() {
    const seen = normalise(parts[which], token, count);
    const name = data.axes[parts[which].side].labels[token];
    const row = (title, values, most) => el("figure", {},
      el("figcaption", {}, el("b", {}, title), ` mean ${number(mean(values))}, spread ${number(Math.sqrt(variance(values)))}`),
      bars(values, most, `${title}: ${values.slice(0, 4).map((v) => number(v)).join(", ")}, …`));
    const high = Math.max(largest(seen.normed), largest(seen.batched), 3);
    strips.replaceChildren(
      row("x", seen.mine, largest(seen.mine)),
      row("x − mean", seen.centred, largest(seen.centred)),
      row("÷ spread", seen.normed, high),
      row("× gain + bias", seen.output, Math.max(high, largest(seen.output))));
    column.replaceChildren(
      row("x", seen.mine, largest(seen.mine)),
      row("each number − its mean, ÷ its spread", seen.batched, high));
    const { values, height, width } = part(parts[which].x);
    const rows = range(height).map((i) => {
      const line = strip(root, values.subarray(i * width, (i + 1) * width), largest(values), "");
      line.removeAttribute("role");
      line.removeAttribute("aria-label");
      line.className = `${i === token ? "on" : ""} ${i === token || i < count ? "" : "out"}`;
      return line;
    });
    whole.replaceChildren(...rows);
    say(told, [name], ": mean ", [number(seen.middle, 3)], ", spread ", [number(seen.spread, 3)], `; its first number ${number(seen.mine[0], 3)} becomes `,
      [number(seen.normed[0], 3)], ", with gain and bias ", [number(seen.output[0], 3)], `; by batch norm over ${count} ${count > 1 ? "pieces" : "piece"} `, [number(seen.batched[0], 3)]);
  }

  change();
  return onTheme(draw);
});
