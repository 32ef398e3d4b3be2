// A vector as a strip of colours or as bars: parts of views that show what is inside a model.
import { colour, el, number, svg } from "regard/dom.js";

// One pixel a number, blue above zero and orange below; `most` is full colour. With a name it is read out, without not.
export function strip(root, values, most, name = "") {
  const first = [...values].slice(0, 4).map((v) => number(v)).join(", ");
  const said = name ? { role: "img", "aria-label": `${name}: ${first}, …` } : { "aria-hidden": "true" };
  const canvas = el("canvas", { class: "r-strip", width: values.length, height: 1, ...said });
  const image = new ImageData(values.length, 1);
  const [above, below] = [colour(root, "--accent"), colour(root, "--below")];
  values.forEach((value, i) => {
    const strength = Math.min(255, Math.round((255 * Math.abs(value)) / most));
    image.data.set([...(value < 0 ? below : above), strength], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// Bars up and down from a middle line, `most` being full height.
export function bars(values, most, name) {
  const said = { role: "img", "aria-label": name };
  const picture = svg("svg", { class: "r-bars", viewBox: `0 0 ${values.length} 40`, preserveAspectRatio: "none", ...said });
  const paths = { above: "", below: "" };
  values.forEach((value, i) => {
    const high = Math.min(20, (20 * Math.abs(value)) / most) * (value < 0 ? -1 : 1);
    paths[value < 0 ? "below" : "above"] += `M${i + 0.1} 20v${-high}h.8v${high}z`;
  });
  picture.append(svg("path", { class: "above", d: paths.above }), svg("path", { class: "below", d: paths.below }));
  return picture;
}

export const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
