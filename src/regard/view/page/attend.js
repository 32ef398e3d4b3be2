// softmax(q k^T / sqrt(d_k)) v for one query, with everything on the way: the equation that the view of six steps shows.
import { part } from "regard/data.js";
import { range } from "regard/dom.js";

// q, k, v: arrays of heads, places and numbers. Keys from `real` on are padding; with `causal` later ones are hidden.
export function attend({ q, k, v, causal, real }, head, token) {
  const rowsOf = (tensor) => {
    const { values, height, width } = part(tensor, head);
    return range(height).map((i) => values.subarray(i * width, (i + 1) * width));
  };
  const [queries, keys, values] = [rowsOf(q), rowsOf(k), rowsOf(v)];
  const query = queries[token];
  const width = query.length;
  const own = token + keys.length - queries.length; // with a cache the queries are the last of the keys
  const masks = keys.map((_, j) => (causal && j > own ? "future" : j >= real ? "padding" : ""));
  const scores = keys.map((key) => key.reduce((sum, x, n) => sum + x * query[n], 0));
  const scaled = scores.map((score) => score / Math.sqrt(width));
  const most = Math.max(...scaled.filter((_, j) => !masks[j]));
  const powers = scaled.map((x, j) => (masks[j] ? 0 : Math.exp(x - most)));
  const total = powers.reduce((a, b) => a + b, 0);
  const weights = powers.map((x) => x / total);
  const weighted = values.map((value, j) => Float64Array.from(value, (x) => x * weights[j]));
  const sum = range(width).map((n) => weighted.reduce((all, value) => all + value[n], 0));
  return { query, keys, values, scores, scaled, masks, weights, weighted, sum, width };
}
