// The data as the views need it: arrays unpacked, tokens merged into words, heads averaged.
// Data is what Look.to_dict() or Look.to_page() gives: axes, attention[kind].weights (lists, or packed arrays).

export const KINDS = {
  cross: { name: "Output–Input", lead: "Each output piece, as it is written, over the whole input." },
  encoder: { name: "Input–Input", lead: "Each input piece, over the whole input, in both directions." },
  decoder: { name: "Output–Output", lead: "Each output piece, over what was written before it, never ahead." },
  attention: { name: "Attention", lead: "Each piece, over all that it may see." },
};
export const SIDES = { source: "Input", target: "Output, being written", read: "Output so far" };

export const kindsOf = (data) => Object.keys(KINDS).filter((kind) => data.attention && data.attention[kind]);

// A copy of the data in which every packed array is {shape, values, scale}; its values are whole numbers times scale.
export async function unpack(data) {
  if (Array.isArray(data)) return typeof data[0] === "object" ? Promise.all(data.map(unpack)) : data;
  if (data === null || typeof data !== "object") return data;
  if (data.packed) return inflated(data);
  const pairs = Object.entries(data).map(async ([name, value]) => [name, await unpack(value)]);
  return Object.fromEntries(await Promise.all(pairs));
}

async function inflated({ packed, shape, scale, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  return { shape, scale, values: packed === "float32" ? new Float32Array(buffer) : new Uint16Array(buffer) };
}

// One matrix of a stack: {values, height, width}, values as floats.
export function part(tensor, ...place) {
  const [height, width] = tensor.shape.slice(-2);
  const size = height * width;
  const start = size * place.reduce((at, i, n) => at * tensor.shape[n] + i, 0);
  const values = new Float32Array(tensor.values.subarray(start, start + size));
  if (tensor.scale !== 1) for (let i = 0; i < size; i++) values[i] *= tensor.scale;
  return { values, height, width };
}

const asTensor = (weights) => (Array.isArray(weights)
  ? {
    shape: [weights.length, weights[0].length, weights[0][0].length, weights[0][0][0].length],
    values: new Float32Array(weights.flat(3)),
    scale: 1,
  }
  : weights);

const tensors = new WeakMap(); // an attention's weights as one array
const KEPT = 32; // matrices remembered; of a long text each is a megabyte

// One kind of attention over words or tokens: its labels, and any head's matrix.
export function attention(data, kind, words) {
  const found = data.attention[kind];
  if (!tensors.has(found)) tensors.set(found, { tensor: asTensor(found.weights), kept: new Map() });
  const { tensor, kept } = tensors.get(found);
  const [queries, keys] = [data.axes[found.queries], data.axes[found.keys]];
  const matrix = (layer, head) => {
    const name = `${layer} ${head} ${words}`;
    if (!kept.has(name)) {
      if (kept.size >= KEPT) kept.delete(kept.keys().next().value);
      const whole = part(tensor, layer, head);
      kept.set(name, words ? merged(whole, queries.groups, keys.groups) : whole);
    }
    return kept.get(name);
  };
  const labels = (axis) => (words ? axis.words : axis.labels);
  return {
    rows: labels(queries), columns: labels(keys), layers: tensor.shape[0], heads: tensor.shape[1],
    sides: [found.queries, found.keys], matrix,
  };
}

// Summed over the tokens of a word that is looked at, averaged over those of a word that looks: rows still sum to one.
function merged({ values, width }, queries, keys) {
  const out = new Float32Array(queries.length * keys.length);
  const word = new Int32Array(width); // of each token
  keys.forEach((columns, j) => columns.forEach((c) => { word[c] = j; }));
  queries.forEach((rows, i) => {
    const to = i * keys.length;
    for (const r of rows) for (let c = 0; c < width; c++) out[to + word[c]] += values[r * width + c] / rows.length;
  });
  return { values: out, height: queries.length, width: keys.length };
}

export function average(matrices) {
  const { height, width } = matrices[0];
  const values = new Float32Array(height * width);
  for (const matrix of matrices) for (let i = 0; i < values.length; i++) values[i] += matrix.values[i] / matrices.length;
  return { values, height, width };
}

export const row = ({ values, width }, i) => values.subarray(i * width, (i + 1) * width);

// Whether any word has several tokens, so that words and tokens are two views.
export const split = (data) => Object.values(data.axes).some((axis) => axis.groups.length < axis.tokens.length);
