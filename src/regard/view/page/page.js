"use strict";
// Draws the attention page from the data in the document. Text is only ever set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const KINDS = {
    cross: ["Output–Input", "Output looks at input", "Each output piece, as it is written, over the whole input."],
    encoder: ["Input–Input", "Input looks at itself", "Each input piece, over the whole input."],
    decoder: ["Output–Output", "Output looks back", "Each output piece, over what was written before it."],
  };
  const kinds = Object.keys(KINDS).filter((kind) => data.attention[kind]);
  const heads = data.attention[kinds[0]].weights[0].length;
  const everyHead = () => new Set(Array.from({ length: heads }, (_, h) => h));
  const state = {
    words: true, kind: kinds[0], layer: data.clearest, heads: everyHead(),
    align: { layer: data.clearest, head: -1 }, // -1 is the mean
    held: null, cell: null,
  };

  // Elements
  const $ = (id) => document.getElementById(id);
  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const make = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
  const draw = (name, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
  const button = (text, attributes, onClick) => {
    const element = make("button", { type: "button", ...attributes }, text);
    element.addEventListener("click", onClick);
    return element;
  };
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const number = (weight) => weight.toFixed(2);

  // Data: labels and weights as they are shown now, over words or over tokens
  const axis = (name) => (state.words ? data.axes[name].words : data.axes[name].labels);
  const kept = new Map();
  function view(kind) {
    const key = kind + state.words;
    if (!kept.has(key)) {
      const { queries, keys, weights } = data.attention[kind];
      const merge = (matrix) => {
        const summed = matrix.map((row) => data.axes[keys].groups.map((g) => g.reduce((sum, j) => sum + row[j], 0)));
        return data.axes[queries].groups.map((g) => summed[0].map((_, j) => mean(g.map((i) => summed[i][j]))));
      };
      const shown = state.words ? weights.map((layer) => layer.map(merge)) : weights;
      kept.set(key, { rows: axis(queries), columns: axis(keys), weights: shown });
    }
    return kept.get(key);
  }
  const average = (matrices) => matrices[0].map((row, i) => row.map((_, j) => mean(matrices.map((m) => m[i][j]))));

  // Alignment
  const ruler = document.createElement("canvas").getContext("2d");
  const widest = (labels) => Math.max(...labels.map((text) => ruler.measureText(text).width));
  const cut = (text) => (text.length > 18 ? text.slice(0, 17) + "…" : text);
  let heat = null;

  function drawHeat() {
    const { rows, columns, weights } = view("cross");
    const chosen = state.align.layer < 0 ? weights : [weights[state.align.layer]];
    const matrix = average(chosen.flatMap((layer) => (state.align.head < 0 ? layer : [layer[state.align.head]])));
    const font = $("heat").clientWidth < 24 * columns.length + 120 ? 11 : 14; // leaning labels need their distance
    ruler.font = `${font}px ${getComputedStyle(document.body).fontFamily}`;
    const left = widest(rows.map(cut)) + 12;
    const lean = 0.71 * widest(columns.map(cut));
    const top = Math.ceil(lean) + 20;
    const right = 0.71 * ruler.measureText(cut(columns.at(-1))).width + 10;
    const size = Math.max(16, Math.min(46, Math.floor(($("heat").clientWidth - left - right) / columns.length)));
    const [width, height] = [left + size * columns.length + right, top + size * rows.length + 2];
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-size": font });
    const columnTexts = columns.map((text, j) => draw("text", {
      transform: `translate(${left + size * (j + 0.5) + 3} ${top - 7}) rotate(-45)`,
    }, cut(text)));
    const rowTexts = rows.map((text, i) => draw("text", {
      x: left - 9, y: top + size * (i + 0.5) + 4, "text-anchor": "end",
    }, cut(text)));
    const box = (i, j) => ({ x: left + size * j + 1, y: top + size * i + 1, width: size - 2, height: size - 2, rx: 5 });
    const squares = matrix.flatMap((row, i) => row.flatMap((weight, j) => [
      draw("rect", { ...box(i, j), class: "tile" }),
      draw("rect", { ...box(i, j), class: "heat", "fill-opacity": weight.toFixed(3) }),
    ]));
    const ring = draw("rect", { class: "ring", rx: 5, visibility: "hidden" });
    svg.append(...columnTexts, ...rowTexts, ...squares, ring);
    $("heat").replaceChildren(svg);
    heat = { svg, matrix, rows, columns, rowTexts, columnTexts, ring, box, left, top, size };
    if (state.cell && (state.cell[0] >= rows.length || state.cell[1] >= columns.length)) state.cell = null;
    markCell();
  }

  function markCell() {
    const { matrix, rows, columns, rowTexts, columnTexts, ring, box } = heat;
    const [row, column] = state.cell || [-1, -1];
    rowTexts.forEach((text, i) => text.classList.toggle("on", i === row));
    columnTexts.forEach((text, j) => text.classList.toggle("on", j === column));
    ring.setAttribute("visibility", state.cell ? "visible" : "hidden");
    if (!state.cell) return say("heat-read", "Point at a square, or tap it, for its number.");
    fill(ring, box(row, column), []);
    say("heat-read", [rows[row]], " takes ", [number(matrix[row][column])], " from ", [columns[column]]);
  }

  function cellAt(event) {
    const area = heat.svg.getBoundingClientRect();
    const column = Math.floor((event.clientX - area.left - heat.left) / heat.size);
    const row = Math.floor((event.clientY - area.top - heat.top) / heat.size);
    const inside = row >= 0 && column >= 0 && row < heat.rows.length && column < heat.columns.length;
    return inside ? [row, column] : null;
  }

  function heatKeys(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape") state.cell = null;
    else if (!step) return;
    else if (!state.cell) state.cell = [0, 0];
    else {
      const within = (value, count) => Math.max(0, Math.min(count - 1, value));
      const [row, column] = [state.cell[0] + step[0], state.cell[1] + step[1]];
      state.cell = [within(row, heat.rows.length), within(column, heat.columns.length)];
    }
    event.preventDefault();
    markCell();
  }

  // A sentence in which what stands in [brackets] is bold
  function say(id, ...parts) {
    $(id).replaceChildren(...parts.map((part) => (Array.isArray(part) ? make("b", {}, part[0]) : part)));
  }

  // Heads
  const ROW = 30;
  const colour = (head) => `var(--h${head % 8})`;

  function drawHeads() {
    const { rows, columns } = view(state.kind);
    const marks = ["▸", "⏎"];
    for (const [id, labels] of [["left", rows], ["right", columns]]) {
      $(id).replaceChildren(...labels.map((text, i) => {
        const token = button(text, { title: text, class: marks.includes(text) ? "mark" : "" }, () => {
          const same = state.held && state.held.side === id && state.held.i === i;
          state.held = same ? null : { side: id, i };
          drawThreads(state.held);
        });
        const hover = (focus) => (event) => event.pointerType === "mouse" && drawThreads(focus || state.held);
        token.addEventListener("pointerenter", hover({ side: id, i }));
        token.addEventListener("pointerleave", hover(null));
        return make("li", {}, token);
      }));
    }
    const [, lead, more] = KINDS[state.kind];
    say("heads-lead", `${lead}. ${more}`);
    const names = { source: "Input", target: "Output, being written", read: "Output so far" };
    say("left-title", names[data.attention[state.kind].queries]);
    say("right-title", names[data.attention[state.kind].keys]);
    drawThreads(state.held);
  }

  function drawThreads(focus) {
    const { rows, columns, weights } = view(state.kind);
    const svg = $("threads");
    const [width, height] = [svg.clientWidth, ROW * Math.max(rows.length, columns.length)];
    svg.setAttribute("height", height);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const shown = [...state.heads].sort((a, b) => a - b);
    const seen = (i, j) => !focus || (focus.side === "left" ? i === focus.i : j === focus.i);
    const paths = new Map(); // lines of one head and nearly one weight are one path: few elements, also for long texts
    shown.forEach((head, place) => {
      const shift = shown.length > 1 ? (place / (shown.length - 1) - 0.5) * 14 : 0;
      weights[state.layer][head].forEach((row, i) => row.forEach((weight, j) => {
        const level = Math.round(weight * 20);
        if (level < (focus ? 1 : 2) || !seen(i, j)) return; // the many faint lines would hide the few strong ones
        const [from, to, bend] = [ROW * (i + 0.45) + shift, ROW * (j + 0.45) + shift, width * 0.42];
        const key = head * 100 + level;
        paths.set(key, `${paths.get(key) || ""}M0 ${from}C${bend} ${from} ${width - bend} ${to} ${width} ${to}`);
      }));
    });
    svg.replaceChildren(...[...paths].map(([key, d]) => {
      const path = draw("path", { d, "stroke-opacity": (key % 100) / 20 });
      path.style.stroke = colour(Math.floor(key / 100));
      if (key >= 800) path.setAttribute("stroke-dasharray", "5 4"); // colours repeat after eight heads
      return path;
    }));
    markTokens(focus, shown, weights[state.layer], rows, columns);
  }

  function markTokens(focus, shown, layer, rows, columns) {
    const of = (id) => [...$(id).querySelectorAll("button")];
    for (const token of [...of("left"), ...of("right")]) {
      token.classList.remove("on");
      token.style.setProperty("--w", 0);
      token.setAttribute("aria-pressed", "false");
    }
    if (state.held) of(state.held.side)[state.held.i].setAttribute("aria-pressed", "true");
    if (!shown.length) return say("lines-read", "No head is shown. Choose one above.");
    if (!focus) return say("lines-read", "Point at a piece, or tap it, to see only its lines, the faint ones too.");
    const asking = focus.side === "left";
    of(focus.side)[focus.i].classList.add("on");
    const weights = asking
      ? columns.map((_, j) => mean(shown.map((head) => layer[head][focus.i][j])))
      : rows.map((_, i) => mean(shown.map((head) => layer[head][i][focus.i])));
    of(asking ? "right" : "left").forEach((token, i) => token.style.setProperty("--w", weights[i]));
    const names = asking ? columns : rows;
    const most = range(names.length).sort((a, b) => weights[b] - weights[a]);
    const best = most.slice(0, 3).filter((i) => weights[i] >= 0.005);
    const listed = best.flatMap((i, n) => [n ? ", " : "", [names[i]], ` ${number(weights[i])}`]);
    const averaged = shown.length > 1 ? ` (mean of ${shown.length} heads)` : "";
    const name = (asking ? rows : columns)[focus.i];
    if (!best.length) return say("lines-read", [name], " is seen by none");
    say("lines-read", [name], asking ? " looks at " : " is seen by ", ...listed, averaged);
  }

  function drawChips() {
    const chips = range(heads).map((head) => {
      const attributes = { "aria-pressed": state.heads.has(head), "aria-label": `Head ${head + 1}` };
      const chip = button(String(head + 1), attributes, () => {
        if (!state.heads.delete(head)) state.heads.add(head);
        update("heads");
        $("chips").children[head].focus();
      });
      chip.style.setProperty("--c", colour(head));
      return chip;
    });
    const whole = state.heads.size === heads;
    chips.push(button(whole ? "None" : "All", { class: "all" }, () => {
      state.heads = whole ? new Set() : everyHead();
      update("heads");
      $("chips").lastChild.focus();
    }));
    $("chips").replaceChildren(...chips);
  }

  // All heads
  function drawGrid() {
    const { weights } = view(state.kind);
    say("grid-lead", `${KINDS[state.kind][0]}, layer by layer. Choose a head to see it alone.`);
    const accent = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    const [r, g, b] = accent.match(/\w\w/g).map((part) => parseInt(part, 16));
    const thumb = (matrix) => {
      const canvas = make("canvas", { width: matrix[0].length, height: matrix.length });
      const image = new ImageData(canvas.width, canvas.height);
      matrix.flat().forEach((weight, i) => image.data.set([r, g, b, Math.round(255 * weight)], 4 * i));
      canvas.getContext("2d").putImageData(image, 0, 0);
      return canvas;
    };
    $("thumbs").replaceChildren(...weights.map((layer, l) => {
      const cells = make("div", { class: "cells" }, ...layer.map((matrix, h) => {
        const name = { "aria-label": `Layer ${l + 1}, head ${h + 1}`, "data-place": `${l} ${h}` };
        const cell = button("", name, () => choose(l, h));
        cell.append(thumb(matrix), make("span", {}, String(h + 1)));
        return cell;
      }));
      cells.style.gridTemplateColumns = `repeat(${Math.min(8, Math.max(4, heads))}, 1fr)`;
      return make("div", { class: "layer" }, make("p", {}, `Layer ${l + 1}`), cells);
    }));
  }

  function markGrid() {
    const only = state.heads.size === 1 ? `${state.layer} ${[...state.heads][0]}` : "";
    const cells = $("thumbs").querySelectorAll("button");
    for (const cell of cells) cell.setAttribute("aria-pressed", cell.dataset.place === only);
  }

  function choose(layer, head) {
    state.layer = layer;
    state.heads = new Set([head]);
    if (state.kind === "cross") state.align = { layer, head };
    update("align", "heads");
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const { top, bottom } = $("heads").getBoundingClientRect();
    if (bottom < 120 || top > innerHeight - 120) $("heads").scrollIntoView({ behavior: calm ? "auto" : "smooth" });
  }

  // Controls
  function choices(id, options, current, onChoose) {
    $(id).replaceChildren(...options.map(([value, text]) => button(text, { "aria-pressed": value === current }, () => {
      onChoose(value);
      [...$(id).children].find((b) => b.getAttribute("aria-pressed") === "true").focus();
    })));
  }

  function select(id, options, current) {
    $(id).replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
    $(id).value = current;
  }

  function drawControls() {
    const layerNames = (kind) => range(data.attention[kind].weights.length).map((l) => [l, `${l + 1}`]);
    const crossing = layerNames("cross");
    if (crossing.length > 1) crossing[data.clearest][1] += " (the clearest)";
    select("align-layer", [...crossing, [-1, "mean of all layers"]], state.align.layer);
    select("align-head", [[-1, "mean of all heads"], ...range(heads).map((h) => [h, `${h + 1}`])], state.align.head);
    select("layer", layerNames(state.kind), state.layer);
    choices("units", [[true, "Words"], [false, "Subwords"]], state.words, (words) => {
      state.words = words;
      state.held = state.cell = null;
      update("align", "heads", "grid");
    });
    choices("kinds", kinds.map((kind) => [kind, KINDS[kind][0]]), state.kind, (kind) => {
      state.kind = kind;
      state.held = null;
      state.layer = Math.min(state.layer, data.attention[kind].weights.length - 1);
      update("heads", "grid");
    });
  }

  function update(...parts) {
    drawControls();
    if (parts.includes("align")) drawHeat();
    if (parts.includes("heads")) { drawChips(); drawHeads(); }
    if (parts.includes("grid")) drawGrid();
    markGrid();
  }

  function drawText() {
    [["source", "from"], ["target", "to"]].forEach(([side, title], i) => {
      const language = data.languages[i];
      if (!/^[a-z]{2,3}(-\w+)*$/i.test(language)) return;
      $(side).lang = language;
      $(title).append(`, ${new Intl.DisplayNames("en", { type: "language" }).of(language)}`);
    });
    const tokens = Object.values(data.axes).flatMap((a) => a.tokens);
    const key = ["⏎ is the end of a text, ▸ the start of the output."];
    if (tokens.includes("<unk>")) key.push("<unk> is a word that the model does not know.");
    const split = Object.values(data.axes).some((a) => a.groups.length < a.tokens.length);
    if (split) key.push("A dot marks a subword that goes on with the one before it.");
    $("key").append(key.join(" "));
    $("units").hidden = !split;
    $("main").hidden = false;
  }

  drawText();
  update("align", "heads", "grid");
  const onChange = (id, change, part) => $(id).addEventListener("change", (event) => {
    change(Number(event.target.value));
    update(part);
  });
  onChange("align-layer", (layer) => { state.align.layer = layer; }, "align");
  onChange("align-head", (head) => { state.align.head = head; }, "align");
  onChange("layer", (layer) => { state.layer = layer; }, "heads");
  $("heat").addEventListener("keydown", heatKeys);
  $("heat").addEventListener("pointerdown", (event) => { state.cell = cellAt(event); markCell(); });
  $("heat").addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    state.cell = cellAt(event);
    markCell();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !state.held) return;
    state.held = null;
    drawThreads(null);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawGrid(); markGrid(); });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawHeat();
    drawThreads(state.held);
  });
})();
