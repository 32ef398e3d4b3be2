// Alignment: output against input, the mean of heads or a single one, and the numbers of a row beside it.
// Data: axes, attention.cross (another kind where there is none), clearest.
import { attention, average, KINDS, kindsOf, row } from "regard/data.js";
import { caption, el, number, para, range, say, select, view } from "regard/dom.js";
import { heat } from "regard/heat.js";
import { shared, unitsOf } from "regard/shared.js";

const LISTED = 12; // rows of the list of numbers

export const mount = view((root, data, options) => {
  const state = options.shared || shared(data);
  const kind = kindsOf(data)[0];
  const { layers, heads } = attention(data, kind, true);
  let [layer, head] = [data.clearest, -1]; // -1 is the mean
  let seen = null;
  let matrix = null;

  const clear = layers > 1 ? " (the clearest)" : "";
  const layerNames = range(layers).map((l) => [l, `${l + 1}${l === data.clearest ? clear : ""}`]);
  const headNames = range(heads).map((h) => [h, `${h + 1}`]);
  const ofLayer = select("Layer", [...layerNames, [-1, "mean of all"]], layer, (value) => { layer = value; draw(); });
  const ofHead = select("Head", [[-1, "mean of all"], ...headNames], head, (value) => { head = value; draw(); });
  const units = unitsOf(data, state);
  const lead = kind === "cross"
    ? "Each row is a piece of the output; its squares show what that piece took from the input."
    : `Each row is a piece that looks, each column one that is looked at. ${KINDS[kind].lead}`;
  const place = el("div");
  const heading = el("h3");
  const numbers = el("ol", { class: "r-numbers" });
  root.append(
    para("lead", lead),
    el("div", { class: "r-controls" }, ofLayer.element, ofHead.element, units.element),
    el("div", { class: "r-heads" }, place, el("aside", { class: "r-aside" }, heading, numbers)),
    caption(),
  );
  const map = heat(place, {
    label: "Heat map of output against input.",
    hint: "Point at a square, or tap it, for its number.",
    describe: (i, j, weight) => [[seen.rows[i]], " takes ", [number(weight)], " from ", [seen.columns[j]]],
    onChoose: (cell) => (cell ? tellRow(cell[0]) : tellAll()),
  });

  function draw() {
    seen = attention(data, kind, state.values.words);
    const chosen = layer < 0 ? range(layers) : [layer];
    const which = head < 0 ? range(heads) : [head];
    matrix = average(chosen.flatMap((l) => which.map((h) => seen.matrix(l, h))));
    units.set(state.values.words);
    map.set({ matrix, rows: seen.rows, columns: seen.columns });
    tellAll();
  }

  function item(name, weight) {
    const bar = el("span", { class: "r-bar", "aria-hidden": "true" }, el("i"));
    bar.firstChild.style.width = `${100 * weight}%`;
    return el("li", {}, name, el("b", {}, number(weight)), bar);
  }

  function tellRow(i) {
    const weights = row(matrix, i);
    const most = range(weights.length).filter((j) => weights[j] >= 0.005).sort((a, b) => weights[b] - weights[a]);
    const items = most.slice(0, LISTED).map((j) => item(el("span", { dir: "auto" }, seen.columns[j]), weights[j]));
    say(heading, [seen.rows[i]], kind === "cross" ? " takes from" : " looks at");
    numbers.replaceChildren(...items);
  }

  // What each row took most from.
  function tellAll() {
    say(heading, "Most from");
    numbers.replaceChildren(...seen.rows.slice(0, LISTED).map((name, i) => {
      const weights = row(matrix, i);
      const j = weights.indexOf(Math.max(...weights));
      return item(el("span", { dir: "auto" }, name, el("small", {}, " ← "), seen.columns[j]), weights[j]);
    }));
    const more = seen.rows.length - LISTED;
    if (more > 0) numbers.append(el("li", { class: "r-hint" }, `and ${more} more: point at a row`));
  }

  const end = state.listen((changes) => "words" in changes && draw());
  draw();
  return () => {
    end();
    map.destroy();
  };
});
