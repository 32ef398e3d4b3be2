/* The steps of a training update that are not matrix products, each in one pass. Their plain twins stand where they are
   called from: attention/full.py, blocks.py, dropout.py and fused.py.

   Arrays are dense, float32, the last index fastest. Shapes: B batch, H heads, T queries, S keys, K head width, D width,
   N tokens. L floats make a vector, whatever the machine has; widths are multiples of 16. Keys are padded to a multiple
   of L, written S'. Nothing is kept between calls, and any number of threads may call at once. */

#include "vectors.h"

/* ---- small products: one head's queries and keys are too few for a library of matrix products ---- */

#define ROWS 8 /* accumulators of `compare` */
#define TALL 4 /* and of `mix`: TALL x WIDE */
#define WIDE (L == 16 ? 4 : 2)

/* out (K S') = x^T of x (rows K), zero from column `rows` on */
static void transpose(float *out, long end, const float *x, long step, long rows, long K) {
    for (long s = 0; s < end; s += L)
        for (long i = 0; i < K; i += L) {
            V r[L];
            UNROLL for (int j = 0; j < L; j++) r[j] = all(0);
            for (int j = 0; j < L && s + j < rows; j++) r[j] = load(x + (s + j) * step + i);
            UNROLL for (int d = L / 2; d; d /= 2)
                UNROLL for (int j = 0; j < L; j++)
                    if (!(j & d)) {
                        V a = r[j], b = r[j + d];
                        r[j] = paired(a, b, d, 0);
                        r[j + d] = paired(a, b, d, 1);
                    }
            UNROLL for (int j = 0; j < L; j++) store(out + (i + j) * end + s, r[j]);
        }
}

/* out (rows S') = a (rows K) bt (K S') */
static void compare(float *out, const float *a, long step, long rows, const float *bt, long end, long K) {
    for (long t = 0; t < rows; t += ROWS) {
        const float *row[ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) row[r] = a + (t + r < rows ? t + r : t) * step;
        for (long s = 0; s < end; s += L) {
            V total[ROWS];
            UNROLL for (int r = 0; r < ROWS; r++) total[r] = all(0);
            for (long i = 0; i < K; i++) {
                V b = load(bt + i * end + s);
                UNROLL for (int r = 0; r < ROWS; r++) total[r] += row[r][i] * b;
            }
            UNROLL for (int r = 0; r < ROWS; r++) if (t + r < rows) store(out + (t + r) * end + s, total[r]);
        }
    }
}

/* out (rows K) = w x, where w[t, s] lies at w[t * down + s * across] and x has `count` rows */
INLINE void mix_columns(float *out, long step, long rows, const float *w, long down, long across, const float *x,
                        long count, const int wide) {
    for (long t = 0; t < rows; t += TALL) {
        const float *row[TALL];
        V total[TALL][WIDE];
        UNROLL for (int r = 0; r < TALL; r++) {
            row[r] = w + (t + r < rows ? t + r : t) * down;
            UNROLL for (int i = 0; i < wide; i++) total[r][i] = all(0);
        }
        for (long s = 0; s < count; s++)
            UNROLL for (int i = 0; i < wide; i++) {
                V b = load(x + s * step + i * L);
                UNROLL for (int r = 0; r < TALL; r++) total[r][i] += row[r][s * across] * b;
            }
        UNROLL for (int r = 0; r < TALL; r++)
            if (t + r < rows) UNROLL for (int i = 0; i < wide; i++) store(out + (t + r) * step + i * L, total[r][i]);
    }
}

static void mix(float *out, long step, long rows, const float *w, long down, long across, const float *x, long count,
                long K) {
    long c = 0;
    for (; c + WIDE * L <= K; c += WIDE * L) mix_columns(out + c, step, rows, w, down, across, x + c, count, WIDE);
    for (; c < K; c += L) mix_columns(out + c, step, rows, w, down, across, x + c, count, 1);
}

/* ---- attention ---- */

typedef struct {
    int64_t batch, heads, queries, keys, width, causal;
} Sizes;

int64_t lanes(void) { return L; }

/* softmax(Q K^T / sqrt(K)) V of q (B T H K), k and v (B S H K); the weights (B H T S') are kept for the gradient.
   A query sees the first `lengths` keys; if causal none after its own, the queries being the last of the keys. */
void attend(const float *q, const float *k, const float *v, const int64_t *lengths, float *out, float *weights,
            float *room, Sizes n) {
    long K = n.width, D = n.heads * K, end = padded(n.keys);
    float scale = 1 / sqrtf(K);
    for (long b = 0; b < n.batch; b++)
        for (long h = 0; h < n.heads; h++) {
            long at = b * n.queries * D + h * K, over = b * n.keys * D + h * K;
            long real = lengths ? lengths[b] : n.keys;
            float *w = weights + (b * n.heads + h) * n.queries * end;
            transpose(room, end, k + over, D, real, K);
            compare(w, q + at, D, n.queries, room, end, K);
            for (long t = 0; t < n.queries; t++) {
                long own = n.causal ? n.keys - n.queries + t + 1 : n.keys, seen = own < real ? own : real;
                soften(w + t * end, seen > 0 ? seen : 0, end, scale);
            }
            mix(out + at, D, n.queries, w, end, 1, v + over, real, K);
        }
}

/* From g, the gradient of `out`: d_v = W^T g, d_w = g V^T, d_s = W (d_w - sum(W d_w)) / sqrt(K), d_q = d_s K,
   d_k = d_s^T Q. */
void attend_backward(const float *g, const float *q, const float *k, const float *v, const float *weights,
                     const int64_t *lengths, float *d_q, float *d_k, float *d_v, float *room, Sizes n) {
    long K = n.width, D = n.heads * K, end = padded(n.keys);
    float scale = 1 / sqrtf(K), *d = room + K * end;
    for (long b = 0; b < n.batch; b++)
        for (long h = 0; h < n.heads; h++) {
            long at = b * n.queries * D + h * K, over = b * n.keys * D + h * K;
            long real = lengths ? lengths[b] : n.keys;
            const float *w = weights + (b * n.heads + h) * n.queries * end;
            transpose(room, end, v + over, D, real, K);
            compare(d, g + at, D, n.queries, room, end, K);
            for (long t = 0; t < n.queries; t++) {
                const float *p = w + t * end;
                float *row = d + t * end;
                V inner = all(0);
                for (long s = 0; s < end; s += L) inner += load(row + s) * load(p + s);
                inner = sum(inner);
                for (long s = 0; s < end; s += L) store(row + s, (load(row + s) - inner) * load(p + s) * scale);
            }
            mix(d_q + at, D, n.queries, d, end, 1, k + over, real, K);
            mix(d_k + over, D, n.keys, d, 1, end, q + at, n.queries, K);
            mix(d_v + over, D, n.keys, w, 1, end, g + at, n.queries, K);
        }
}

/* ---- dropout, sums and norms ---- */

/* y times 256 / keep where its random byte is below keep, else zero; everything as it is without bytes */
INLINE V dropped(V y, const uint8_t *bytes, int keep, float scale) {
    if (!bytes) return y;
    I kept = __builtin_convertvector(*(const Bytes *)bytes, I) < keep;
    return (V)((I)(y * scale) & kept);
}

/* out = x + dropped(y), or dropped(y) alone without x */
void add_dropped(float *out, const float *x, const float *y, const uint8_t *bytes, int64_t keep, int64_t count) {
    float scale = 256.0f / keep;
    for (long i = 0; i < count; i += L) {
        V more = dropped(load(y + i), bytes + i, keep, scale);
        if (x) more += load(x + i);
        store(out + i, more);
    }
}

/* z = x + dropped(y), or x itself without y; out = (z - mean) / sqrt(variance + eps) * gain + bias over each row */
void add_norm(float *out, float *z, float *stats, const float *x, const float *y, const uint8_t *bytes, int64_t keep,
              const float *gain, const float *bias, float eps, int64_t rows, int64_t D) {
    float scale = 256.0f / keep;
    for (long t = 0; t < rows; t++) {
        const float *row = x + t * D;
        V total = all(0), squares = all(0);
        if (y) {
            row = z + t * D;
            for (long i = t * D; i < (t + 1) * D; i += L)
                store(z + i, load(x + i) + dropped(load(y + i), bytes ? bytes + i : 0, keep, scale));
        }
        for (long i = 0; i < D; i += L) total += load(row + i);
        V mean = sum(total) / (float)D;
        for (long i = 0; i < D; i += L) {
            V far = load(row + i) - mean;
            squares += far * far;
        }
        float over = 1 / sqrtf(sum(squares)[0] / D + eps);
        for (long i = 0; i < D; i += L)
            store(out + t * D + i, (load(row + i) - mean) * over * load(gain + i) + load(bias + i));
        stats[2 * t] = mean[0];
        stats[2 * t + 1] = over;
    }
}

/* From g, the gradient of `out`: d_z (plus `more`, what reached z past the norm), d_y = dropped(d_z), d_gain, d_bias */
void add_norm_backward(float *d_z, float *d_y, float *d_gain, float *d_bias, const float *g, const float *more,
                       const float *z, const float *stats, const uint8_t *bytes, int64_t keep, const float *gain,
                       int64_t rows, int64_t D) {
    float scale = 256.0f / keep;
    memset(d_gain, 0, D * sizeof(float));
    memset(d_bias, 0, D * sizeof(float));
    for (long t = 0; t < rows; t++) {
        float mean = stats[2 * t], over = stats[2 * t + 1];
        V level = all(0), slope = all(0);
        for (long i = 0; i < D; i += L) {
            V arrived = load(g + t * D + i), hat = (load(z + t * D + i) - mean) * over;
            V weighted = arrived * load(gain + i);
            level += weighted;
            slope += weighted * hat;
            store(d_gain + i, load(d_gain + i) + arrived * hat);
            store(d_bias + i, load(d_bias + i) + arrived);
        }
        level = sum(level) / (float)D;
        slope = sum(slope) / (float)D;
        for (long i = 0; i < D; i += L) {
            long at = t * D + i;
            V hat = (load(z + at) - mean) * over;
            V d = (load(g + at) * load(gain + i) - level - hat * slope) * over;
            if (d_y) store(d_y + at, dropped(d, bytes ? bytes + at : 0, keep, scale));
            if (more) d += load(more + at);
            store(d_z + at, d);
        }
    }
}

/* h = max(0, h + bias) */
void relu(float *h, const float *bias, int64_t rows, int64_t D) {
    for (long t = 0; t < rows; t++)
        for (long i = 0; i < D; i += L) store(h + t * D + i, larger(load(h + t * D + i) + load(bias + i), all(0)));
}

/* d is zeroed where h, the output of a ReLU, is; d_bias is then its sum over tokens */
void relu_backward(float *d, const float *h, float *d_bias, int64_t rows, int64_t D) {
    memset(d_bias, 0, D * sizeof(float));
    for (long t = 0; t < rows; t++)
        for (long i = 0; i < D; i += L) {
            V kept = chosen(load(h + t * D + i) <= 0, all(0), load(d + t * D + i));
            store(d + t * D + i, kept);
            store(d_bias + i, load(d_bias + i) + kept);
        }
}
