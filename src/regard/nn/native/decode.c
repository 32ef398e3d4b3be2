/* One token further in every row of a decoder, to the logits of the next, in one call. The plain twin is in packed.py:
   with few rows its hundred operations take longer to be called than to be done, and libraries of matrix products are
   made for more rows.

   Arrays are dense, float32, the last index fastest. Shapes: R rows (hypotheses), N sentences, H heads, K head width,
   D width (H K), F inner width, V vocabulary, T target length, S source length. Widths are multiples of 16. Nothing is
   kept between calls, and any number of threads may call at once. */

#include "vectors.h"

#define HIGH 5 /* rows of a tile, the usual beam; with WIDE vectors a row its sums fit the registers */
#define WIDE (L == 16 ? 4 : 2)

typedef struct {
    const float *weight, *bias; /* of a norm, its gain and bias; a linear layer may have no bias */
} Pair;

typedef struct { /* linear layers as (in, out) */
    Pair own_norm, qkv, out, cross_norm, cross_q, cross_out, last_norm, inner, outer;
} Layer;

typedef struct {
    int64_t rows, sentences, layers, heads, width, inner, vocabulary, room, length, keys, first;
    float eps;
} Decoder;

/* A tile of out = x weight + bias (+ out): `rows` rows, `wide` vectors */
INLINE void tile(float *out, const float *x, const float *weight, const float *bias, long D, long E, int add,
                 const int rows, const int wide) {
    V total[HIGH][WIDE];
    UNROLL for (int i = 0; i < wide; i++) {
        V begin = bias ? load(bias + i * L) : all(0);
        UNROLL for (int r = 0; r < rows; r++) {
            total[r][i] = begin;
            if (add) total[r][i] += load(out + r * E + i * L);
        }
    }
    for (long d = 0; d < D; d++)
        UNROLL for (int i = 0; i < wide; i++) {
            V w = load(weight + d * E + i * L);
            UNROLL for (int r = 0; r < rows; r++) total[r][i] += x[r * D + d] * w;
        }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int i = 0; i < wide; i++) store(out + r * E + i * L, total[r][i]);
}

/* `wide` vectors of columns for all rows: of a narrow layer these columns of the weights stay in the first cache */
INLINE void columns(float *out, const float *x, const float *weight, const float *bias, long rows, long D, long E,
                    int add, const int wide) {
    for (; rows >= HIGH; rows -= HIGH, out += HIGH * E, x += HIGH * D)
        tile(out, x, weight, bias, D, E, add, HIGH, wide);
    switch (rows) {
    case 4: tile(out, x, weight, bias, D, E, add, 4, wide); break;
    case 3: tile(out, x, weight, bias, D, E, add, 3, wide); break;
    case 2: tile(out, x, weight, bias, D, E, add, 2, wide); break;
    case 1: tile(out, x, weight, bias, D, E, add, 1, wide); break;
    }
}

/* out (R E) = x (R D) weight (D E) + bias, or out + all that. E is a multiple of L, or at least L if nothing is added:
   the last columns are then done with some that were done before. */
static void affine(float *out, const float *x, Pair p, long rows, long D, long E, int add) {
    long e = 0;
    for (; e + WIDE * L <= E; e += WIDE * L)
        columns(out + e, x, p.weight + e, p.bias ? p.bias + e : 0, rows, D, E, add, WIDE);
    for (; e < E; e += L) {
        if (e + L > E) e = E - L;
        columns(out + e, x, p.weight + e, p.bias ? p.bias + e : 0, rows, D, E, add, 1);
    }
}

/* out = (x - mean) / sqrt(variance + eps) * gain + bias over each row */
static void norm(float *out, const float *x, Pair p, float eps, long rows, long D) {
    for (long r = 0; r < rows; r++, out += D, x += D) {
        V total = all(0), squares = all(0);
        for (long i = 0; i < D; i += L) total += load(x + i);
        V mean = sum(total) / (float)D;
        for (long i = 0; i < D; i += L) squares += (load(x + i) - mean) * (load(x + i) - mean);
        float over = 1 / sqrtf(sum(squares)[0] / D + eps);
        for (long i = 0; i < D; i += L)
            store(out + i, (load(x + i) - mean) * over * load(p.weight + i) + load(p.bias + i));
    }
}

/* softmax(q K^T / sqrt(K)) V of one query over so many keys of one head. w: room for the weights, in whole vectors */
static void attend_one(float *out, const float *q, const float *keys, const float *values, long count, long K,
                       float *w) {
    for (long s = 0; s < count; s++) {
        V total = all(0);
        for (long i = 0; i < K; i += L) total += load(q + i) * load(keys + s * K + i);
        w[s] = sum(total)[0];
    }
    soften(w, count, padded(count), 1 / sqrtf(K));
    for (long i = 0; i < K; i += L) {
        V total = all(0);
        for (long s = 0; s < count; s++) total += w[s] * load(values + s * K + i);
        store(out + i, total);
    }
}

/* x (R D): the residual stream, at the end what the output layer sees. logits: R V. grown (layers 2 R H room K): keys
   and values of `length` places, the last one's to be written. source (layers 2 N H S K), of which each sentence has
   `lengths`; its rows stand together. last: a norm, or none, and the output layer. first: norms stand before the
   sub-layers. space: 5 R D + R F + max(T, S) floats and a vector. */
void decode(float *x, float *logits, float *grown, const float *source, const int64_t *lengths, const Layer *layers,
            const Pair *last, float *space, Decoder n) {
    const long R = n.rows, H = n.heads, K = n.width, D = H * K, F = n.inner, each = R / n.sentences;
    float *normed = space, *q = normed + R * D, *mixed = q + 3 * R * D, *inner = mixed + R * D, *w = inner + R * F;
    for (const Layer *p = layers; p < layers + n.layers; p++) {
        const float *in = n.first ? normed : x;
        float *keys = grown, *values = keys + R * H * n.room * K;
        const float *their_keys = source, *their_values = source + n.sentences * H * n.keys * K;

        if (n.first) norm(normed, x, p->own_norm, n.eps, R, D);
        affine(q, in, p->qkv, R, D, 3 * D, 0);
        for (long r = 0; r < R; r++)
            for (long h = 0; h < H; h++) {
                const float *own = q + r * 3 * D + h * K;
                const long head = (r * H + h) * n.room * K, place = head + (n.length - 1) * K;
                memcpy(keys + place, own + D, K * sizeof(float));
                memcpy(values + place, own + 2 * D, K * sizeof(float));
                attend_one(mixed + r * D + h * K, own, keys + head, values + head, n.length, K, w);
            }
        affine(x, mixed, p->out, R, D, D, 1);

        norm(n.first ? normed : x, x, n.first ? p->cross_norm : p->own_norm, n.eps, R, D);
        affine(q, in, p->cross_q, R, D, D, 0);
        for (long r = 0; r < R; r++)
            for (long h = 0; h < H; h++) {
                const long head = (r / each * H + h) * n.keys * K, seen = lengths ? lengths[r / each] : n.keys;
                const long at = r * D + h * K;
                attend_one(mixed + at, q + at, their_keys + head, their_values + head, seen, K, w);
            }
        affine(x, mixed, p->cross_out, R, D, D, 1);

        norm(n.first ? normed : x, x, n.first ? p->last_norm : p->cross_norm, n.eps, R, D);
        affine(inner, in, p->inner, R, D, F, 0);
        for (long i = 0; i < R * F; i += L) store(inner + i, larger(load(inner + i), all(0)));
        affine(x, inner, p->outer, R, F, D, 1);
        if (!n.first) norm(x, x, p->last_norm, n.eps, R, D);

        grown += 2 * R * H * n.room * K;
        source += 2 * n.sentences * H * n.keys * K;
    }
    if (last[0].weight) norm(x, x, last[0], n.eps, R, D);
    affine(logits, x, last[1], R, D, n.vocabulary, 0);
}
