// Lines between two columns of tokens, on a canvas no larger than what is seen of them.
import { colour } from "regard/dom.js";

const MOST = 3000; // lines drawn at once: more are no picture
const LEVELS = 20; // lines of one head and nearly one weight are one path

// The lines of each head from a weight on, as [query, key, weight], and how many were left out because they are too many.
export function linesOf(heads, matrix, least) {
  const from = Math.max(least, enough(heads, matrix));
  let hidden = 0;
  const lines = heads.map((head) => {
    const { values, width } = matrix(head);
    const found = [];
    for (let n = 0; n < values.length; n++) {
      if (values[n] < least) continue;
      if (values[n] >= from && found.length < MOST) found.push([Math.floor(n / width), n % width, values[n]]);
      else hidden++;
    }
    return { head, found };
  });
  return { lines, hidden };
}

// The weight from which on there are about as many lines as can be drawn.
function enough(heads, matrix) {
  const counts = new Uint32Array(1001); // by weight, in thousandths
  for (const head of heads) for (const w of matrix(head).values) counts[Math.min(1000, Math.floor(w * 1000))]++;
  let [drawn, at] = [0, 1000];
  while (at > 0 && drawn < MOST) drawn += counts[at--];
  return (at + 1) / 1000;
}

// Draws them; `step` is the height of a token, `from` how far the columns are scrolled.
export function paint(canvas, lines, { width, height, step, from }) {
  const dense = devicePixelRatio || 1;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  canvas.style.height = `${height}px`;
  const ink = canvas.getContext("2d");
  ink.scale(dense, dense);
  ink.lineWidth = 2;
  ink.lineCap = "round";
  lines.forEach(({ head, found }, place) => {
    const shift = lines.length > 1 ? (place / (lines.length - 1) - 0.5) * Math.min(14, step / 2) : 0;
    const y = (i) => step * (i + 0.5) + shift - from;
    const paths = new Map();
    for (const [i, j, weight] of found) {
      const [a, b] = [y(i), y(j)];
      if (Math.max(a, b) < -20 || Math.min(a, b) > height + 20) continue;
      const level = Math.max(1, Math.round(weight * LEVELS));
      if (!paths.has(level)) paths.set(level, new Path2D());
      paths.get(level).moveTo(0, a);
      paths.get(level).bezierCurveTo(width * 0.42, a, width * 0.58, b, width, b);
    }
    ink.strokeStyle = `rgb(${colour(canvas, `--h${head % 8}`).join(" ")})`;
    ink.setLineDash(head >= 8 ? [5, 4] : []); // colours repeat after eight heads
    for (const [level, path] of paths) {
      ink.globalAlpha = level / LEVELS;
      ink.stroke(path);
    }
  });
}
