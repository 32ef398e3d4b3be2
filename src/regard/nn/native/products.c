/* Matrix products in float32 with AVX2: out (M N) = a (M K) b (K N), or out + a b. The plain twin is torch.mm, in
   product.py.

   After Goto and van de Geijn 2008. A block of b, DEEP rows, is laid out in panels of WIDE columns, one of which stays
   in the first cache; a block of a, TALL rows by DEEP, in strips of HIGH rows, which stay in the second. A tile of HIGH
   x WIDE sums is in registers from the first to the last of the DEEP. Nothing is kept between calls, and any number of
   threads may call at once. */

#include <stdint.h>

#if defined(__AVX2__) && defined(__FMA__)

#include <string.h>

#include "blocks.h"

#define HIGH 6 /* with WIDE: twelve vectors of sums, two of b and one of a, of sixteen registers */
#define WIDE 16
#define DEEP 256
#define TALL 240

/* `lines` rows of a, or columns of b, in strips of `wide`: strip by strip out[k][line], k < deep. Element k of line n
   lies at x[n * apart + k * step], and apart or step is 1. What a last strip lacks is zero. */
INLINE void lay_out(float *out, const float *x, int64_t apart, int64_t step, int64_t lines, int64_t deep,
                    const int wide) {
    const int64_t whole = lines / wide * wide;
    if (apart == 1)
        for (int64_t k = 0; k < deep; k++) {
            for (int64_t n = 0; n < lines; n += 16) __builtin_prefetch(x + (k + 8) * step + n);
            for (int64_t n = 0; n < whole; n += wide) memcpy(out + n * deep + k * wide, x + k * step + n, 4 * wide);
        }
    else
        for (int64_t n = 0; n < whole; n += wide) {
            float *strip = out + n * deep;
            int64_t k = 0;
            /* Six lines are taken as eight, if they are there: what is written too much, the next eight write over. */
            for (; k + 8 <= deep && n + 8 <= lines; k += 8)
                for (int i = 0; i < wide; i += 8) transpose(strip + k * wide + i, wide, x + (n + i) * apart + k, apart);
            for (; k < deep; k++)
                for (int i = 0; i < wide; i++) strip[k * wide + i] = x[(n + i) * apart + k];
        }
    if (whole < lines)
        for (int64_t k = 0; k < deep; k++)
            for (int i = 0; i < wide; i++)
                out[whole * deep + k * wide + i] = whole + i < lines ? x[(whole + i) * apart + k * step] : 0;
}

/* out (HIGH WIDE, rows so far apart) = a b, or out + a b, of a strip (deep HIGH) and a panel (deep WIDE) */
static void tile(float *restrict out, int64_t apart, const float *restrict a, const float *restrict b, int64_t deep,
                 int add) {
    __m256 left[HIGH], right[HIGH];
    UNROLL for (int i = 0; i < HIGH; i++) {
        __builtin_prefetch(out + i * apart, 1);
        __builtin_prefetch(out + i * apart + WIDE - 1, 1);
        left[i] = right[i] = _mm256_setzero_ps();
    }
    _Pragma("GCC unroll 4") for (int64_t k = 0; k < deep; k++) {
        const __m256 b0 = _mm256_load_ps(b + k * WIDE), b1 = _mm256_load_ps(b + k * WIDE + 8);
        UNROLL for (int i = 0; i < HIGH; i++) {
            const __m256 x = _mm256_broadcast_ss(a + k * HIGH + i);
            left[i] = _mm256_fmadd_ps(x, b0, left[i]);
            right[i] = _mm256_fmadd_ps(x, b1, right[i]);
        }
    }
    UNROLL for (int i = 0; i < HIGH; i++) {
        float *row = out + i * apart;
        if (add) {
            left[i] = _mm256_add_ps(left[i], _mm256_loadu_ps(row));
            right[i] = _mm256_add_ps(right[i], _mm256_loadu_ps(row + 8));
        }
        _mm256_storeu_ps(row, left[i]);
        _mm256_storeu_ps(row + 8, right[i]);
    }
}

/* A tile at the edge, of which there are fewer rows or columns. */
static void edge(float *out, int64_t apart, const float *a, const float *b, int64_t deep, int add, int64_t high,
                 int64_t wide) {
    float whole[HIGH * WIDE];
    tile(whole, WIDE, a, b, deep, 0);
    for (int64_t i = 0; i < high; i++)
        for (int64_t j = 0; j < wide; j++) out[i * apart + j] = whole[i * WIDE + j] + (add ? out[i * apart + j] : 0);
}

int64_t multiplies(void) { return 1; }

/* a[m][k] lies at a[m * a_down + k * a_across], b likewise; one of each pair is 1. Gives back whether it was done. */
int64_t multiply(float *out, const float *a, int64_t a_down, int64_t a_across, const float *b, int64_t b_down,
                 int64_t b_across, int64_t M, int64_t K, int64_t N, int64_t add) {
    const int64_t deepest = even(K, DEEP, 1), tallest = even(M, TALL, HIGH);
    const int64_t panels = (N + WIDE - 1) / WIDE * WIDE * deepest, strips = (tallest + 2) * deepest;
    float *right = _mm_malloc(4 * (panels + strips), 64), *left = right + panels;
    if (!right) return 0;
    for (int64_t k = 0; k < K; k += deepest) {
        const int64_t deep = least(deepest, K - k);
        lay_out(right, b + k * b_down, b_across, b_down, N, deep, WIDE);
        for (int64_t i = 0; i < M; i += tallest) {
            const int64_t rows = least(tallest, M - i);
            lay_out(left, a + i * a_down + k * a_across, a_down, a_across, rows, deep, HIGH);
            for (int64_t n = 0; n < N; n += WIDE)
                for (int64_t m = 0; m < rows; m += HIGH) {
                    float *place = out + (i + m) * N + n;
                    const float *x = left + m * deep, *y = right + n * deep;
                    if (m + HIGH <= rows && n + WIDE <= N)
                        tile(place, N, x, y, deep, add || k);
                    else
                        edge(place, N, x, y, deep, add || k, least(HIGH, rows - m), least(WIDE, N - n));
                }
        }
    }
    _mm_free(right);
    return 1;
}

#else

int64_t multiplies(void) { return 0; }

int64_t multiply(float *out, const float *a, int64_t a_down, int64_t a_across, const float *b, int64_t b_down,
                 int64_t b_across, int64_t M, int64_t K, int64_t N, int64_t add) {
    (void)out, (void)a, (void)a_down, (void)a_across, (void)b, (void)b_down, (void)b_across;
    (void)M, (void)K, (void)N, (void)add;
    return 0;
}

#endif
