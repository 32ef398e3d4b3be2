// What a score depends on (RISE): the words of a text or the places of an image, as they get clearer mask by mask.
// mount(root, data, {row}) -> {update(data), destroy()}; update while masks are being tried: what stands there moves on.
// Data is what Explanation.to_dict() or ImageExplanation.to_dict() of regard.explain gives:
//   text, output (of a translator, else null), languages ([source, target] or null), places: [name]
//   rows: [{label, whole, nothing, mean, values: [number], errors: [standard error], curves?}], one for each score or output word;
//     whole, nothing, mean: the score of the input as it is, with all of it hidden, and the mean over the masks;
//     curves: {deletion, insertion}, each {share, scores, chance: [number], auc, random: [auc]}
//   most: the value of full colour; masks so far, planned, done; keep: how likely a place is seen
//   image: null, or {src: a data: address, width, height, values: {height, width, values: [number]}}, and then no places
import { button, choice, clamp, colour, el, number, onTheme, range, say, slider, svg, tokens } from "regard/dom.js";
import { heat } from "regard/heat.js";

const SURE = 1.96; // standard errors on each side of a 95 % interval
const FEW = 24; // places that are listed before the rest is asked for
const [WIDTH, HEIGHT] = [260, 120]; // of a curve's picture

export function mount(root, data, { row = 0 } = {}) {
  root.classList.add("r-view");
  let built = null;
  let chosen = row;

  function update(next) {
    if (!built || !same(built.data, next)) {
      built?.end();
      root.replaceChildren();
      chosen = clamp(chosen, 0, next.rows.length - 1);
      built = next.image ? buildImage(root) : buildText(root, next, chosen, (i) => { chosen = i; });
    }
    built.data = next;
    built.draw(next);
  }

  update(data);
  return {
    update,
    destroy() {
      built.end();
      root.replaceChildren();
    },
  };
}

// Whether two states are of one explanation, so that the elements can stay.
const same = (a, b) => JSON.stringify([a.text, a.output, a.places, a.rows.map((r) => r.label), a.image?.src])
  === JSON.stringify([b.text, b.output, b.places, b.rows.map((r) => r.label), b.image?.src]);

function buildText(root, first, row, onRow) {
  const [from, to] = first.languages || ["", ""];
  const translating = first.output !== null;
  let data = first;
  let sorted = first.places.length > FEW;
  let all = false;
  const asking = el("h3");
  const told = el("p", { class: "r-read" });
  const line = el("p", { class: "r-sal-text", dir: "auto", lang: from });
  const pieces = first.places.map((name) => el("span", {}, name));
  pieces.forEach((piece, i) => line.append(...(i ? [" "] : []), piece));
  const bars = first.places.map((name) => bar(name, from));
  const list = el("ol", { class: "r-sal-bars", "aria-label": "Each place of the input, with its value and 95 % interval" });
  const order = choice("Order of the list", [[false, "In order"], [true, "Largest first"]], sorted, (value) => { sorted = value; order.set(value); draw(data); });
  const more = button("", { class: "r-quiet" }, () => { all = !all; draw(data); });
  const state = progress("; the thin lines are 95 % intervals");
  const plots = el("div", { class: "r-sal-curves" });
  const picker = tokens(translating ? "Output words" : "Scores", first.rows.map((r) => r.label), { lang: translating ? to : "" }, choose);
  const every = el("section", {}, el("h3", {}, translating ? "Every output word" : "Every score"));
  let map = null;
  root.append(
    el("p", { class: "r-lead" }, translating
      ? "Source words are hidden at random, again and again. A word's value is how much likelier the output word is, on average, when the source word is seen."
      : "Parts of the text are hidden at random, again and again. A part's value is how much higher the score is, on average, when it is seen."),
    ...(first.rows.length > 1 ? [el("p", { class: "r-over" }, translating ? "Output: choose a word" : "Choose a score"), picker.element] : []),
    asking, told, line, state.element,
    el("div", { class: "r-controls" }, order.element), list, more, plots,
    ...(first.rows.length > 1 ? [every] : []),
    caption(),
  );
  if (first.rows.length > 1) {
    map = heat(every, {
      label: "Output words over source words.", hint: "Point at a cell, or tap it, for its number.", signed: true,
      describe: (i, j, value) => [[first.rows[i].label], " with ", [first.places[j]], ": ", [signed(value)], ` ± ${number(SURE * data.rows[i].errors[j])}`],
      onChoose: (cell) => { if (cell && cell[0] !== row) choose(cell[0]); },
    });
  }

  function choose(i) {
    row = i;
    onRow(i);
    draw(data);
  }

  function draw(next) {
    data = next;
    const { label, whole, nothing, mean, values, errors, curves } = data.rows[row];
    picker.set(row);
    say(asking, translating ? `Why “${label}”?` : label);
    const score = translating ? "Its probability is " : "The score is ";
    say(told, score, [short(whole)], " with the whole input, ", [short(nothing)], " with nothing of it, ", [short(mean)], " on average while parts are hidden.");
    pieces.forEach((piece, i) => tint(piece, values[i] / data.most, signed(values[i])));
    const highest = Math.max(0.3 * data.most, ...values.map((v, i) => v + SURE * errors[i]));
    const lowest = Math.min(-0.06 * data.most, ...values.map((v, i) => v - SURE * errors[i]));
    const by = range(values.length);
    if (sorted) by.sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
    const listed = all ? by : by.slice(0, FEW);
    const wanted = listed.map((i) => bars[i].element);
    if (wanted.length !== list.children.length || wanted.some((e, i) => e !== list.children[i])) list.replaceChildren(...wanted);
    for (const i of listed) bars[i].set(values[i], errors[i], lowest, highest);
    more.hidden = by.length <= FEW;
    more.textContent = all ? `Only ${FEW} of them` : `All ${by.length}`;
    state.set(data);
    plots.replaceChildren(...(curves ? [plot("Deletion", "as the words named first are taken away; lower is better", curves.deletion), plot("Insertion", "as they are put back first; higher is better", curves.insertion)] : []));
    map?.set({
      matrix: { values: Float32Array.from(data.rows.flatMap((r) => r.values)), height: data.rows.length, width: data.places.length },
      rows: data.rows.map((r) => r.label), columns: data.places, most: data.most,
    });
  }

  return { draw, end: () => map?.destroy() };
}

// One place: its name, a bar from zero with the interval over it, and the number.
function bar(name, language) {
  const [fill, whisker, zero] = [el("i", { class: "r-sal-fill" }), el("i", { class: "r-sal-sure" }), el("i", { class: "r-sal-zero" })];
  const told = el("span", { class: "r-sal-number" });
  const element = el("li", {}, el("span", { class: "r-sal-name", dir: "auto", lang: language }, name), el("span", { class: "r-sal-track", "aria-hidden": "true" }, zero, fill, whisker), told);
  const part = (value, lowest, highest) => 100 * clamp((value - lowest) / (highest - lowest), 0, 1);
  const between = (item, a, b) => {
    item.style.left = `${a}%`;
    item.style.width = `${b - a}%`;
  };
  return {
    element,
    set(value, error, lowest, highest) {
      const at = (v) => part(v, lowest, highest);
      zero.style.left = `${at(0)}%`;
      fill.classList.toggle("below", value < 0);
      between(fill, at(Math.min(0, value)), at(Math.max(0, value)));
      between(whisker, at(value - SURE * error), at(value + SURE * error));
      say(told, [signed(value)], ` ± ${number(SURE * error)}`);
    },
  };
}

function buildImage(root) {
  const canvas = el("canvas");
  const picture = el("img", { alt: "The image that is explained" });
  const frame = el("div", { class: "r-sal-image" }, picture, canvas);
  const told = el("p", { class: "r-read" });
  const state = progress();
  const plots = el("div", { class: "r-sal-curves" });
  const strength = slider("Strength of the map", { value: 0.75 }, (value) => { canvas.style.opacity = value; });
  canvas.style.opacity = 0.75;
  root.append(
    el("p", { class: "r-lead" }, "Parts of the image are hidden at random, again and again. Where the map is strong, the score is higher when the place is seen; the other colour marks places that lower it."),
    told, el("div", { class: "r-controls" }, strength.element), frame, state.element, plots, caption(),
  );
  let data = null;

  function paint() {
    const { values, height, width } = data.image.values;
    const [above, below] = [colour(root, "--accent"), colour(root, "--below")];
    canvas.width = width;
    canvas.height = height;
    const pixels = new ImageData(width, height);
    values.forEach((value, i) => {
      pixels.data.set([...(value < 0 ? below : above), Math.round(255 * clamp(Math.abs(value) / data.most, 0, 1))], 4 * i);
    });
    canvas.getContext("2d").putImageData(pixels, 0, 0);
  }

  function draw(next) {
    data = next;
    const { label, whole, nothing, curves } = data.rows[0];
    picture.src = data.image.src;
    frame.style.width = `${Math.max(320, data.image.width)}px`;
    frame.style.aspectRatio = `${data.image.width} / ${data.image.height}`;
    say(told, [label], " is ", [short(whole)], " for the whole image, ", [short(nothing)], " with all of it hidden.");
    paint();
    state.set(data);
    plots.replaceChildren(...(curves ? [plot("Deletion", "as the places named first are hidden; lower is better", curves.deletion), plot("Insertion", "as they come out of the blur first; higher is better", curves.insertion)] : []));
  }

  return { draw, end: onTheme(() => data && paint()) };
}

function progress(note = "") {
  const line = el("progress", { "aria-label": "Masks tried" });
  const told = el("span", { "aria-live": "polite" });
  const set = ({ masks, planned, done }) => {
    line.max = planned;
    line.value = masks;
    line.hidden = done;
    const [now, end] = [masks, planned].map((n) => n.toLocaleString("en"));
    told.textContent = done ? `${now} masks${masks < planned ? `, sure enough before ${end}` : ""}${note}` : `${now} of ${end} masks`;
  };
  return { element: el("p", { class: "r-sal-progress" }, line, told), set };
}

// A curve over the share of places that were changed, beside that of random orders.
function plot(title, lead, { share, scores, chance, auc, random }) {
  const [top, bottom] = [Math.max(...scores, ...chance), Math.min(0, ...scores, ...chance)];
  const x = (s) => (40 + s * (WIDTH - 48)).toFixed(1);
  const y = (v) => (8 + (1 - (v - bottom) / (top - bottom || 1)) * (HEIGHT - 30)).toFixed(1);
  const path = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(share[i])} ${y(v)}`).join("");
  const mean = random.reduce((a, b) => a + b, 0) / random.length;
  const ends = [[x(0), HEIGHT - 6, "0", "start"], [x(1), HEIGHT - 6, "all", "end"], [36, y(top), short(top), "end"], [36, y(bottom), short(bottom), "end"]];
  return el("figure", {},
    el("h3", {}, title, " ", el("small", {}, lead)),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: area ${number(auc, 3)}, in random order ${number(mean, 3)}` },
      svg("path", { class: "area", d: `${path(scores)}L${x(1)} ${y(bottom)}L${x(0)} ${y(bottom)}Z` }),
      svg("path", { class: "axis", d: `M${x(0)} ${y(bottom)}H${x(1)}` }),
      svg("path", { class: "chance", d: path(chance) }),
      svg("path", { class: "curve", d: path(scores) }),
      ...ends.map(([left, base, text, anchor]) => svg("text", { x: left, y: base, "text-anchor": anchor, "dominant-baseline": anchor === "end" && text !== "all" ? "middle" : "auto" }, text))),
    el("figcaption", { class: "r-read" }, "area ", el("b", {}, number(auc, 3)), `; in random order, dashed, ${number(mean, 3)}`));
}

function tint(element, strength, title) {
  element.style.setProperty("--w", clamp(Math.abs(strength), 0, 1).toFixed(3));
  element.classList.toggle("below", strength < 0);
  element.classList.toggle("full", Math.abs(strength) > 0.6);
  element.title = title;
}

const signed = (value) => (value > 0.005 ? "+" : "") + number(value);

// Three digits that count, however large or small.
function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return value.toLocaleString("en", { maximumSignificantDigits: 4 });
  return size < 0.0005 ? `${value < 0 ? "−" : ""}<0.001` : number(value, size < 10 ? 3 : 1);
}

const caption = () => el("p", { class: "r-caption r-sal-caption" },
  el("b", {}, "It says what the score depends on, not how the model works inside."),
  " A value is an average over inputs with holes, which are not what the model was made for; parts that matter only together share their value. "
  + "Test what you think it means by changing the input.");
