// A heat map: labels around a canvas of one pixel a cell, scaled up, so that 512 by 512 cells cost no more than 12 by 12.
// It is a part of views, not a view: heat(root, settings) -> {set({matrix, rows, columns}), destroy()}.
// settings: label (for screen readers), describe(i, j, value) -> the parts of a sentence, hint, signed (two colours),
// named (with labels), onChoose(cell): [row, column] that is pointed at, or null.
import { button, clamp, colour, el, onTheme, onWidth, say } from "regard/dom.js";

const [LEGIBLE, LARGEST] = [13, 46]; // pixels of a cell that can have a label, and of any cell

export function heat(root, { label, describe, hint, signed = false, named = true, onChoose = null }) {
  const columnLabels = el("div", { class: "r-heat-columns", "aria-hidden": "true" });
  const rowLabels = el("div", { class: "r-heat-rows", "aria-hidden": "true" });
  const canvas = el("canvas");
  const ring = el("div", { class: "r-heat-ring", hidden: true });
  const cells = el("div", { class: "r-heat-cells" }, canvas, el("div", { class: "r-heat-gaps" }), ring);
  const body = el("div", { class: "r-heat-body" }, columnLabels, rowLabels, cells);
  const said = { role: "application", "aria-label": `${label} Arrow keys move from cell to cell.` };
  const scroll = el("div", { class: "r-heat", tabindex: 0, ...said }, body);
  const read = el("p", { class: "r-read", "aria-live": "polite" });
  const zoom = button("", { class: "r-quiet" }, () => { zoomed = !zoomed; lay(); });
  const [low, high] = signed ? ["−", "+"] : ["0", "1"];
  const scale = el("p", { class: "r-scale", "aria-hidden": "true" }, low, el("span", { class: signed ? "signed" : "" }), high);
  root.append(scroll, el("div", { class: "r-under" }, read, zoom, scale));
  const ruler = el("canvas").getContext("2d");
  let shown = null;
  let cell = null; // [row, column] that is looked at
  let zoomed = false;
  let size = 0;

  function set(next) {
    shown = next;
    if (cell && (cell[0] >= shown.matrix.height || cell[1] >= shown.matrix.width)) cell = null;
    columnLabels.replaceChildren(...(named ? shown.columns : []).map((text) => el("span", { dir: "auto" }, text)));
    rowLabels.replaceChildren(...(named ? shown.rows : []).map((text) => el("span", { dir: "auto" }, text)));
    lay();
    paint();
    mark();
  }

  // Where everything stands; leaning labels while there is room for them, then upright ones, then none.
  function lay() {
    if (!shown || !scroll.clientWidth) return;
    const { height, width } = shown.matrix;
    ruler.font = getComputedStyle(rowLabels).font;
    const widest = (texts) => Math.min(130, Math.max(...texts.map((text) => ruler.measureText(text).width)));
    const left = named ? Math.min(widest(shown.rows), 0.34 * scroll.clientWidth) + 12 : 0;
    const across = named ? widest(shown.columns) : 0;
    const last = named ? Math.min(130, ruler.measureText(shown.columns.at(-1)).width) * 0.71 : 0;
    const room = scroll.clientWidth - left - 4;
    const leaning = named && Math.floor((room - last) / width) >= 22;
    const legible = named && Math.floor(room / width) >= LEGIBLE;
    zoom.hidden = legible || !named;
    zoom.textContent = zoomed ? "Show it whole" : "Make it legible";
    const labels = legible || (named && zoomed);
    const tight = legible ? Math.floor(room / width) : (scroll.clientWidth - 4) / width;
    const whole = leaning ? Math.floor((room - last) / width) : tight;
    size = Math.min(LARGEST, labels && !legible ? LEGIBLE + 3 : whole);
    const top = !labels ? 0 : leaning ? Math.ceil(across * 0.71) + 16 : Math.ceil(across) + 10;
    body.className = `r-heat-body ${labels ? (leaning ? "leaning" : "upright") : "bare"}`;
    scroll.classList.toggle("tall", size * height + top > 640);
    for (const [name, value] of Object.entries({ cell: size, left: labels ? left : 0, top, right: leaning ? last : 0 })) {
      body.style.setProperty(`--${name}`, `${value}px`);
    }
    cells.style.width = `${size * width}px`;
    cells.style.height = `${size * height}px`;
    cells.classList.toggle("gapped", size >= 8);
    mark();
  }

  function paint() {
    if (!shown) return;
    const { values, height, width } = shown.matrix;
    const [above, below] = [colour(root, "--accent"), colour(root, "--below")];
    const most = shown.most || 1;
    canvas.width = width;
    canvas.height = height;
    const image = new ImageData(width, height);
    for (let i = 0; i < values.length; i++) {
      const rgb = values[i] < 0 ? below : above;
      image.data[4 * i] = rgb[0];
      image.data[4 * i + 1] = rgb[1];
      image.data[4 * i + 2] = rgb[2];
      image.data[4 * i + 3] = Math.min(255, Math.round((255 * Math.abs(values[i])) / most));
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  function mark() {
    if (!shown) return;
    const [i, j] = cell || [-1, -1];
    for (const [labels, at] of [[rowLabels, i], [columnLabels, j]]) {
      labels.querySelector(".on")?.classList.remove("on");
      if (at >= 0) labels.children[at]?.classList.add("on");
    }
    ring.hidden = !cell;
    if (!cell) return say(read, hint);
    ring.style.transform = `translate(${j * size}px, ${i * size}px)`;
    ring.style.width = ring.style.height = `${size}px`;
    say(read, ...describe(i, j, shown.matrix.values[i * shown.matrix.width + j]));
  }

  function choose(next, moved = false) {
    cell = next;
    mark();
    onChoose?.(cell);
    if (cell && moved) ring.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function at(event) {
    const area = cells.getBoundingClientRect();
    const [j, i] = [(event.clientX - area.left) / size, (event.clientY - area.top) / size].map(Math.floor);
    return i >= 0 && j >= 0 && i < shown.matrix.height && j < shown.matrix.width ? [i, j] : null;
  }

  cells.addEventListener("pointerdown", (event) => choose(at(event)));
  cells.addEventListener("pointermove", (event) => {
    const next = at(event);
    if (event.pointerType === "mouse" && String(next) !== String(cell)) choose(next);
  });
  scroll.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape" && cell) choose(null);
    else if (!step) return;
    else if (!cell) choose([0, 0], true);
    else {
      const { height, width } = shown.matrix;
      choose([clamp(cell[0] + step[0], 0, height - 1), clamp(cell[1] + step[1], 0, width - 1)], true);
    }
    event.preventDefault();
    event.stopPropagation();
  });
  const ends = [onTheme(paint), onWidth(scroll, lay)];
  return {
    set,
    destroy() {
      ends.forEach((end) => end());
      root.replaceChildren();
    },
  };
}
