// Alignment: output against input, the mean of heads or a single one.
// Data: axes, attention.cross (another kind where there is none), clearest.
import { attention, average, KINDS, kindsOf, row, split } from "regard/data.js";
import { caption, choice, el, number, range, say, select, view } from "regard/dom.js";
import { heat } from "regard/heat.js";
import { shared } from "regard/shared.js";

const LISTED = 12; // rows of the list of numbers

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
  const heading = el("h3");
  const numbers = el("ol", { class: "r-numbers" });
  root.append(
    el("p", { class: "r-lead" }, lead),
    el("div", { class: "r-controls" }, ofLayer.element, ofHead.element, ...(split(data) ? [units.element] : [])),
    el("div", { class: "r-heads" }, place, el("aside", { class: "r-aside" }, heading, numbers)),
    caption(),
  );
  let seen = attention(data, kind, state.values.words);
  let matrix = null;
  let told = null; // the row whose numbers are told
  const map = heat(place, {
    label: "Heat map of output against input.",
    hint: "Point at a square, or tap it, for its number.",
    describe: (i, j, weight) => [[seen.rows[i]], " takes ", [number(weight)], " from ", [seen.columns[j]]],
    onChoose: (cell) => tell(cell ? cell[0] : null),
  });

  function draw() {
    seen = attention(data, kind, state.values.words);
    const chosen = layer < 0 ? range(layers) : [layer];
    const which = head < 0 ? range(heads) : [head];
    matrix = average(chosen.flatMap((l) => which.map((h) => seen.matrix(l, h))));
    units.set(state.values.words);
    map.set({ matrix, rows: seen.rows, columns: seen.columns });
    tell(null);
  }

  // The numbers of a row, or what each row took most from.
  function tell(i) {
    if (i === told && i !== null) return;
    told = i;
    const item = (name, weight) => {
      const bar = el("span", { class: "r-bar", "aria-hidden": "true" }, el("i"));
      bar.firstChild.style.width = `${100 * weight}%`;
      return el("li", {}, name, el("b", {}, number(weight)), bar);
    };
    if (i !== null) {
      const weights = row(matrix, i);
      const most = range(weights.length).filter((j) => weights[j] >= 0.005).sort((a, b) => weights[b] - weights[a]);
      say(heading, [seen.rows[i]], kind === "cross" ? " takes from" : " looks at");
      numbers.replaceChildren(...most.slice(0, LISTED).map((j) => item(el("span", { dir: "auto" }, seen.columns[j]), weights[j])));
      return;
    }
    say(heading, "Most from");
    numbers.replaceChildren(...seen.rows.slice(0, LISTED).map((name, at) => {
      const weights = row(matrix, at);
      const j = weights.indexOf(Math.max(...weights));
      return item(el("span", { dir: "auto" }, name, el("small", {}, " ← "), seen.columns[j]), weights[j]);
    }));
    if (seen.rows.length > LISTED) numbers.append(el("li", { class: "r-hint" }, `and ${seen.rows.length - LISTED} more: point at a row`));
  }

  const end = state.listen((changes) => "words" in changes && draw());
  draw();
  return () => {
    end();
    map.destroy();
  };
});
