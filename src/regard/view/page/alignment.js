// Alignment: output against input, the mean of heads or a single one.
// Data: axes, attention.cross (another kind where there is none), clearest.
import { attention, average, KINDS, kindsOf, split } from "regard/data.js";
import { caption, choice, el, number, range, select, view } from "regard/dom.js";
import { heat } from "regard/heat.js";
import { shared } from "regard/shared.js";

export const mount = view((root, data, options) => {
  const state = options.shared || shared(data);
  const kind = kindsOf(data)[0];
  const { layers, heads } = attention(data, kind, true);
  let [layer, head] = [data.clearest, -1]; // -1 is the mean
  const layerNames = range(layers).map((l) => [l, layers > 1 && l === data.clearest ? `${l + 1} (the clearest)` : `${l + 1}`]);
  const ofLayer = select("Layer", [...layerNames, [-1, "mean of all"]], layer, (value) => { layer = value; draw(); });
  const ofHead = select("Head", [[-1, "mean of all"], ...range(heads).map((h) => [h, `${h + 1}`])], head, (value) => { head = value; draw(); });
  const units = choice("Units", [[true, "Words"], [false, "Subwords"]], state.values.words, (words) => state.set({ words }));
  const lead = kind === "cross"
    ? "Each row is a piece of the output; its squares show what that piece took from the input."
    : `Each row is a piece that looks, each column one that is looked at. ${KINDS[kind].lead}`;
  const place = el("div");
  root.append(
    el("p", { class: "r-lead" }, lead),
    el("div", { class: "r-controls" }, ofLayer.element, ofHead.element, ...(split(data) ? [units.element] : [])),
    place, caption(),
  );
  let seen = attention(data, kind, state.values.words);
  const map = heat(place, {
    label: "Heat map of output against input.",
    hint: "Point at a square, or tap it, for its number.",
    describe: (i, j, weight) => [[seen.rows[i]], " takes ", [number(weight)], " from ", [seen.columns[j]]],
  });

  function draw() {
    seen = attention(data, kind, state.values.words);
    const chosen = layer < 0 ? range(layers) : [layer];
    const which = head < 0 ? range(heads) : [head];
    const matrix = average(chosen.flatMap((l) => which.map((h) => seen.matrix(l, h))));
    units.set(state.values.words);
    map.set({ matrix, rows: seen.rows, columns: seen.columns });
  }

  const end = state.listen((changes) => "words" in changes && draw());
  draw();
  return () => {
    end();
    map.destroy();
  };
});
