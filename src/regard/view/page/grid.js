// Grid: every head of every layer as a small picture; one of them enlarges to a heat map with its words.
// Data: axes, attention (any kinds), clearest. options.open(view): shows another view of the page, if there is one.
import { attention, KINDS } from "regard/data.js";
import { button, caption, colour, el, number, onTheme, para, range, rove, say, view } from "regard/dom.js";
import { heat } from "regard/heat.js";
import { kindOf, shared, unitsOf } from "regard/shared.js";

const LARGEST = 72; // pixels of a small picture's side; larger matrices show the strongest of each block

export const mount = view((root, data, options) => {
  const state = options.shared || shared(data);
  const [units, kinds] = [unitsOf(data, state), kindOf(data, state)];
  const lead = para("lead");
  const grid = el("div", { class: "r-grid" });
  const title = el("h3");
  const place = el("div");
  const dialog = el("dialog", { class: "r-dialog r-view", "aria-label": "One head" });
  const quiet = (text, name, onClick) => button(text, { class: "r-quiet", "aria-label": name }, onClick);
  const lines = quiet("Its lines", null, () => {
    state.set({ layer: large[0], heads: new Set([large[1]]) });
    dialog.close();
    options.open("heads");
  });
  lines.hidden = !options.open;
  dialog.append(el("div", { class: "r-dialog-top" }, title,
    quiet("‹", "Head before", () => enlarge(-1)), quiet("›", "Head after", () => enlarge(1)),
    lines, quiet("Close", null, () => dialog.close())), place);
  root.append(lead, el("div", { class: "r-controls" }, kinds.element, units.element), grid, caption(), dialog);
  let seen = null;
  let large = [0, 0];
  let map = null;

  function draw() {
    const { kind, words } = state.values;
    seen = attention(data, kind, words);
    kinds.set(kind);
    units.set(words);
    say(lead, `${KINDS[kind].lead} Rows look, columns are looked at; choose a head to enlarge it.`);
    grid.style.setProperty("--heads", String(Math.min(8, seen.heads)));
    grid.replaceChildren(...range(seen.layers).map((layer) => {
      const cells = el("div", { class: "r-cells" }, ...range(seen.heads).map((head) => small(layer, head)));
      return el("div", { class: "r-layer" }, el("p", {}, `Layer ${layer + 1}`), cells);
    }));
  }

  function small(layer, head) {
    const name = { "aria-label": `Layer ${layer + 1}, head ${head + 1}`, tabindex: layer || head ? -1 : 0 };
    const made = button("", { class: "r-thumb", ...name }, () => {
      large = [layer, head];
      enlarge(0);
    });
    made.append(thumbnail(seen.matrix(layer, head)), el("span", {}, String(head + 1)));
    return made;
  }

  function thumbnail({ values, height, width }) {
    const [high, wide] = [Math.min(height, LARGEST), Math.min(width, LARGEST)];
    const canvas = el("canvas", { width: wide, height: high });
    const strongest = new Float32Array(high * wide);
    for (let i = 0; i < height; i++) {
      const to = Math.floor((i * high) / height) * wide;
      for (let j = 0; j < width; j++) {
        const at = to + Math.floor((j * wide) / width);
        if (values[i * width + j] > strongest[at]) strongest[at] = values[i * width + j];
      }
    }
    const image = new ImageData(wide, high);
    const [r, g, b] = colour(root, "--accent");
    strongest.forEach((weight, i) => image.data.set([r, g, b, Math.round(255 * weight)], 4 * i));
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  // The large picture of the chosen head, or of one so many further on.
  function enlarge(step) {
    const all = seen.layers * seen.heads;
    const at = (large[0] * seen.heads + large[1] + step + all) % all;
    large = [Math.floor(at / seen.heads), at % seen.heads];
    say(title, `Layer ${large[0] + 1}, head ${large[1] + 1}`, el("small", {}, ` ${KINDS[state.values.kind].name}`));
    if (!dialog.open) dialog.showModal();
    map?.destroy();
    map = heat(place, {
      label: "Heat map of one head.",
      hint: "Point at a square, or tap it, for its number.",
      describe: (i, j, weight) => [[seen.rows[i]], " looks at ", [seen.columns[j]], ": ", [number(weight, 3)]],
    });
    map.set({ matrix: seen.matrix(...large), rows: seen.rows, columns: seen.columns });
  }

  rove(grid, () => seen.heads);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  const ends = [
    state.listen((changes) => ("kind" in changes || "words" in changes) && draw()),
    onTheme(draw),
    () => map?.destroy(),
  ];
  draw();
  return () => ends.forEach((end) => end());
});
