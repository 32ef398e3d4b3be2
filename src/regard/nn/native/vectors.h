/* Vectors of the machine's own width in GNU C, for steps.c and decode.c: L floats each. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define L 16
#elif defined(__AVX__)
#define L 8
#else
#define L 4
#endif

typedef float V __attribute__((vector_size(4 * L), aligned(4), may_alias));
typedef int32_t I __attribute__((vector_size(4 * L)));
typedef uint8_t Bytes __attribute__((vector_size(L), aligned(1), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* ---- vectors ---- */

INLINE V load(const float *p) { return *(const V *)p; }
INLINE void store(float *p, V x) { *(V *)p = x; }
INLINE V all(float x) { return x - (V){0}; }
INLINE V chosen(I which, V a, V b) { return (V)(((I)a & which) | ((I)b & ~which)); }
INLINE V larger(V a, V b) { return chosen((a > b) | (a != a), a, b); } /* what is not a number stays so */

INLINE V first(V x, long count, float rest) { /* `rest` from lane `count` on */
    I lane;
    for (int i = 0; i < L; i++) lane[i] = i;
    return chosen(lane < (int32_t)(count < L ? count : L), x, all(rest));
}

INLINE V paired(V a, V b, const int d, const int high) { /* one half of exchanging blocks of d lanes between a and b */
    V out;
#ifdef __clang__
    UNROLL for (int i = 0; i < L; i++) out[i] = high ? (i & d ? b[i] : a[(i + d) % L]) : (i & d ? b[(i + L - d) % L] : a[i]);
#else
    I from;
    for (int i = 0; i < L; i++) from[i] = high ? (i & d ? L + i : i + d) : (i & d ? L + i - d : i);
    out = __builtin_shuffle(a, b, from);
#endif
    return out;
}

INLINE V turned(V x, const int d) { /* lane i takes lane i ^ d */
    V out;
#ifdef __clang__
    UNROLL for (int i = 0; i < L; i++) out[i] = x[i ^ d];
#else
    I from;
    for (int i = 0; i < L; i++) from[i] = i ^ d;
    out = __builtin_shuffle(x, from);
#endif
    return out;
}

INLINE V sum(V x) { /* in every lane */
    UNROLL for (int d = L / 2; d; d /= 2) x += turned(x, d);
    return x;
}

INLINE V largest(V x) {
    UNROLL for (int d = L / 2; d; d /= 2) x = larger(x, turned(x, d));
    return x;
}

INLINE V exponential(V x) { /* for x <= 0: 2^n 2^f, n whole, |f| <= 1/2, and for 2^f its series */
    V y = larger(x * 1.442695041f, all(-126));
    I n = __builtin_convertvector(y - 0.5f, I); /* towards zero */
    V f = y - __builtin_convertvector(n, V);
    V p = f * 1.540353039e-4f + 1.333355815e-3f;
    p = p * f + 9.618129108e-3f;
    p = p * f + 5.550410866e-2f;
    p = p * f + 2.402265070e-1f;
    p = p * f + 6.931471806e-1f;
    p = p * f + 1.0f;
    I bits = (n + 127) << 23;
    return p * (V)bits;
}

INLINE long padded(long keys) { return (keys + L - 1) / L * L; }

/* p = softmax(p scale) over its first `seen` of `end` places, whole vectors; zero after them */
INLINE void soften(float *p, long seen, long end, float scale) {
    V high = all(-INFINITY), total = all(0);
    for (long s = 0; s < seen; s += L) high = larger(high, first(load(p + s), seen - s, -INFINITY));
    high = largest(high);
    for (long s = 0; s < seen; s += L) {
        V e = exponential((first(load(p + s), seen - s, -INFINITY) - high) * scale);
        e = first(e, seen - s, 0);
        store(p + s, e);
        total += e;
    }
    for (long s = padded(seen); s < end; s += L) store(p + s, all(0));
    V share = 1 / sum(total);
    for (long s = 0; s < seen; s += L) store(p + s, load(p + s) * share);
}
