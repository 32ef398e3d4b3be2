// Norms: what layer normalisation does to one token's vector, beside what batch normalisation would do.
// Data: axes, languages; norms {parts: [{label, side, eps, x: T x D, gain, bias}], note}, unpacked.
import { part } from "regard/data.js";
import { el, live, number, onTheme, para, range, say, select, slider, tokens, view } from "regard/dom.js";
import { bars, largest, strip } from "regard/strip.js";

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

function variance(values) {
  const middle = mean(values);
  return mean(values.map((x) => (x - middle) ** 2));
}

// One row through layer norm and, among the first `count` rows (itself always one of them), through batch norm.
function normalise({ x, gain, bias, eps }, token, count) {
  const { values, width } = part(x);
  const rowOf = (i) => Array.from(values.subarray(i * width, (i + 1) * width));
  const mine = rowOf(token);
  const [middle, spread] = [mean(mine), Math.sqrt(variance(mine) + eps)];
  const centred = mine.map((v) => v - middle);
  const normed = centred.map((v) => v / spread);
  const output = normed.map((v, d) => v * gain.values[d] + bias.values[d]);
  const batch = batchOf(token, count).map(rowOf);
  const batched = mine.map((v, d) => {
    const column = batch.map((row) => row[d]);
    return (v - mean(column)) / Math.sqrt(variance(column) + eps);
  });
  return { mine, middle, spread, centred, normed, output, batched };
}

const batchOf = (token, count) => [...new Set([token, ...range(count)])].slice(0, count);

export const mount = view((root, data) => {
  const { parts, note } = data.norms;
  root.append(
    para("lead", "Layer norm takes one piece's vector, subtracts its mean and divides by its spread. Batch norm does so "
      + "across pieces, one number of the vector at a time."),
    para("note", note || ""));
  if (!parts.length) return () => {};
  let [which, token, count] = [0, 0, 0];
  const place = select("Norm", parts.map((p, i) => [i, p.label]), which, (value) => { which = value; change(); });
  const [picking, many, whole] = [el("div"), el("div"), el("div", { class: "r-whole" })];
  const [layer, batch] = [el("div", { class: "r-strips" }), el("div", { class: "r-strips" })];
  const told = live("read");
  root.append(
    el("div", { class: "r-controls" }, place.element), picking, told,
    el("div", { class: "r-two" },
      el("section", {}, el("h3", {}, "Layer norm"),
        para("small", "Over the numbers of this one piece; the others do not matter."), layer),
      el("section", {}, el("h3", {}, "Batch norm, in its place"),
        para("small", "Over all pieces of the batch, for each number by itself: leave some out, and the result is another."),
        many, batch,
        para("small", "All pieces downwards, their numbers across: layer norm works along the row, batch norm down each "
          + "column."), whole)));

  const side = () => parts[which].side;
  const names = () => data.axes[side()].labels;

  function change() {
    token = Math.min(token, names().length - 1);
    count = names().length;
    const language = data.languages[side() === "source" ? 0 : 1] || "";
    const picked = tokens("Piece", names(), { lang: language }, (i) => {
      token = i;
      picked.set(i);
      draw();
    });
    picked.set(token);
    picking.replaceChildren(picked.element);
    const bounds = { least: 1, most: count, step: 1, value: count, shown: (n) => number(n, 0) };
    many.replaceChildren(slider("Pieces in the batch", bounds, (n) => { count = n; draw(); }).element);
    draw();
  }

  function figure(title, values, most) {
    const about = ` mean ${number(mean(values))}, spread ${number(Math.sqrt(variance(values)))}`;
    const first = values.slice(0, 4).map((v) => number(v)).join(", ");
    return el("figure", {}, el("figcaption", {}, el("b", {}, title), about), bars(values, most, `${title}: ${first}, …`));
  }

  function draw() {
    const seen = normalise(parts[which], token, count);
    const high = Math.max(3, largest(seen.normed), largest(seen.batched));
    layer.replaceChildren(
      figure("x", seen.mine, largest(seen.mine)),
      figure("x − mean", seen.centred, largest(seen.centred)),
      figure("÷ spread", seen.normed, high),
      figure("× gain + bias", seen.output, Math.max(high, largest(seen.output))));
    batch.replaceChildren(
      figure("x", seen.mine, largest(seen.mine)),
      figure("each number − its mean, ÷ its spread", seen.batched, high));
    const { values, height, width } = part(parts[which].x);
    const inside = new Set(batchOf(token, count));
    const most = largest(values);
    whole.replaceChildren(...range(height).map((i) => {
      const line = strip(root, values.subarray(i * width, (i + 1) * width), most);
      line.className = `${i === token ? "on" : ""} ${inside.has(i) ? "" : "out"}`;
      return line;
    }));
    tell(seen);
  }

  function tell({ mine, middle, spread, normed, output, batched }) {
    const three = (x) => [number(x, 3)];
    say(told, [names()[token]], ": mean ", three(middle), ", spread ", three(spread),
      `; its first number ${number(mine[0], 3)} becomes `, three(normed[0]), ", with gain and bias ", three(output[0]),
      `; by batch norm over ${count} ${count > 1 ? "pieces" : "piece"} `, three(batched[0]));
  }

  change();
  return onTheme(draw);
});
