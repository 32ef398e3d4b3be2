/* Matrix products of 16-bit whole numbers with AVX-512 VNNI: out (M N) = a (M K) b (K N), or out + a b, all in float32
   outside. The plain twin is torch.mm.

   A processor with VNNI multiplies and adds 64 such numbers in the time of 32 in float32. Every row of a and every column
   of b, DEEP numbers at a time, is scaled to a length of LONGEST and rounded. By Cauchy and Schwarz no sum can be larger
   than the product of two lengths, so 32 bits hold it, and the sums themselves are exact. A number is off by half a unit
   at most; where all are alike, that is 1 / 2,800 of each for 512 of them (TF32 has 1 / 2,048). A number of less than
   half a unit, beside far larger ones, is lost.

   The blocks are those of products.c: a tile of HIGH x WIDE sums is in registers from the first to the last of the DEEP.
   Numbers lie in pairs along K, as the instruction takes them. A row or column with a number that is none, or too large
   to be squared, gives none; one shorter than 1e-16 counts as zero. */

#include <stdint.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include "blocks.h"

#define HIGH 12 /* with WIDE: twenty-four vectors of sums, two of b and one of a, of thirty-two registers */
#define WIDE 32
#define DEEP 512
#define TALL 240
#define LONGEST 32000.0f
#define SHORTEST 1e-32f /* a length's square: squares that are too small for a float are then no part of it */

/* The first of sixteen: as many as are left. */
INLINE __mmask16 some(int64_t left) { return left >= 16 ? 0xffff : left <= 0 ? 0 : (1u << left) - 1; }

INLINE __m512i rounded(__mmask16 mask, const float *x, __m512 factor) {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x), factor));
}

/* What scales a line up to LONGEST, and down again, from its length's square; 0 for nothing. */
INLINE __m512 up(__m512 square) {
    const __mmask16 is = _mm512_cmp_ps_mask(square, _mm512_set1_ps(SHORTEST), _CMP_GT_OQ);
    return _mm512_maskz_div_ps(is, _mm512_set1_ps(LONGEST), _mm512_sqrt_ps(square));
}
INLINE __m512 down(__m512 square) { return _mm512_mul_ps(_mm512_sqrt_ps(square), _mm512_set1_ps(1 / LONGEST)); }

/* Lines whose numbers lie side by side: each is rounded, then `wide` of them turned, so that out[pair][line]. */
INLINE void lay_out_along(int32_t *out, float *scale, const float *x, int64_t apart, int64_t lines, int64_t deep,
                          const int wide) {
    const int64_t pairs = (deep + 1) / 2;
    int32_t rows[WIDE][DEEP / 2 + 8];
    for (int64_t n = 0; n < lines; n += wide) {
        for (int64_t i = 0; i < wide; i++) {
            const float *line = x + (n + i) * apart;
            const int64_t length = n + i < lines ? deep : 0;
            __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
            for (int64_t k = 0; k < length; k += 32)
                UNROLL for (int j = 0; j < 2; j++) {
                    const __m512 v = _mm512_maskz_loadu_ps(some(length - k - 16 * j), line + k + 16 * j);
                    sums[j] = _mm512_fmadd_ps(v, v, sums[j]);
                }
            const __m512 square = _mm512_set1_ps(_mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])));
            const __m512 factor = up(square);
            scale[n + i] = _mm512_cvtss_f32(down(square));
            for (int64_t k = 0; k < deep; k += 16)
                _mm256_storeu_si256((__m256i *)(rows[i] + k / 2),
                                    _mm512_cvtepi32_epi16(rounded(some(length - k), line + k, factor)));
        }
        int32_t *strip = out + n * pairs;
        int64_t p = 0;
        for (; p + 8 <= pairs; p += 8)
            UNROLL for (int i = 0; i < wide; i += 8) {
                const int first = i + 8 > wide ? wide - 8 : i; /* twelve are eight and eight: four are written twice */
                transpose((float *)(strip + p * wide + first), wide, (const float *)(rows[first] + p), DEEP / 2 + 8);
            }
        for (; p < pairs; p++)
            for (int i = 0; i < wide; i++) strip[p * wide + i] = rows[i][p];
    }
}

/* Lines that lie side by side themselves, their numbers `step` apart. */
INLINE void lay_out_across(int32_t *out, float *scale, float *factor, const float *x, int64_t step, int64_t lines,
                           int64_t deep, const int wide) {
    const int64_t pairs = (deep + 1) / 2;
    for (int64_t n = 0; n < lines; n += 16) _mm512_storeu_ps(scale + n, _mm512_setzero_ps());
    for (int64_t k = 0; k < deep; k++)
        for (int64_t n = 0; n < lines; n += 16) {
            const __m512 v = _mm512_maskz_loadu_ps(some(lines - n), x + k * step + n);
            _mm512_storeu_ps(scale + n, _mm512_fmadd_ps(v, v, _mm512_loadu_ps(scale + n)));
        }
    for (int64_t n = 0; n < lines; n += 16) {
        const __m512 square = _mm512_loadu_ps(scale + n);
        _mm512_storeu_ps(factor + n, up(square));
        _mm512_storeu_ps(scale + n, down(square));
    }
    for (int64_t k = 0; k < deep; k += 2)
        for (int64_t n = 0; n < lines; n += wide)
            UNROLL for (int j = 0; j < wide; j += 16) {
                const float *line = x + k * step + n + j;
                const __mmask16 mask = some(lines - n - j < wide - j ? lines - n - j : wide - j);
                const __m512 f = _mm512_maskz_loadu_ps(mask, factor + n + j);
                const __m512i first = rounded(mask, line, f), second = rounded(k + 1 < deep ? mask : 0, line + step, f);
                const __m512i both = _mm512_mask_blend_epi16(0xaaaaaaaa, first, _mm512_slli_epi32(second, 16));
                _mm512_mask_storeu_epi32(out + n * pairs + k / 2 * wide + j, some(wide - j), both);
            }
}

/* `lines` rows of a, or columns of b, in strips of `wide`: strip by strip out[pair][line]. Number k of line n lies at
   x[n * apart + k * step], and apart or step is 1. What a last strip lacks is zero. scale: what a unit is worth. */
INLINE void lay_out(int32_t *out, float *scale, float *room, const float *x, int64_t apart, int64_t step, int64_t lines,
                    int64_t deep, const int wide) {
    if (step == 1)
        lay_out_along(out, scale, x, apart, lines, deep, wide);
    else
        lay_out_across(out, scale, room, x, step, lines, deep, wide);
}

/* Each row of a tile is spelled out, and the instruction too: compilers put arrays of sums into memory here. */
#define ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define BEGIN(i) __m512i left##i = _mm512_setzero_si512(), right##i = left##i;
#define DOT(sum, x, y) __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y))
#define STEP(i)                                               \
    {                                                         \
        const __m512i x = _mm512_set1_epi32(a[k * HIGH + i]); \
        DOT(left##i, x, b0);                                  \
        DOT(right##i, x, b1);                                 \
    }
#define END(i) put(out + i * apart, left##i, right##i, _mm512_set1_ps(down[i]), across0, across1, add);

INLINE void put(float *row, __m512i left, __m512i right, __m512 down, __m512 across0, __m512 across1, int add) {
    __m512 l = _mm512_mul_ps(_mm512_cvtepi32_ps(left), _mm512_mul_ps(down, across0));
    __m512 r = _mm512_mul_ps(_mm512_cvtepi32_ps(right), _mm512_mul_ps(down, across1));
    _mm512_storeu_ps(row, add ? _mm512_add_ps(l, _mm512_loadu_ps(row)) : l);
    _mm512_storeu_ps(row + 16, add ? _mm512_add_ps(r, _mm512_loadu_ps(row + 16)) : r);
}

/* out (HIGH WIDE, rows so far apart) = a b, or out + a b, of a strip (pairs HIGH) and a panel (pairs WIDE). The rows of
   out are fetched one by one on the way: all at once they would keep the strip from coming. */
static __attribute__((noinline)) void tile(float *restrict out, int64_t apart, const int32_t *restrict a,
                                           const int32_t *restrict b, int64_t pairs, const float *down,
                                           const float *across, int add) {
    ROWS(BEGIN)
    const int64_t each = pairs / HIGH + 1;
    for (int64_t row = 0, k = 0; row < HIGH; row++) {
        __builtin_prefetch(out + row * apart, 1);
        __builtin_prefetch(out + row * apart + WIDE - 1, 1);
        for (const int64_t end = least(k + each, pairs); k < end; k++) {
            const __m512i b0 = _mm512_load_si512(b + k * WIDE), b1 = _mm512_load_si512(b + k * WIDE + 16);
            ROWS(STEP)
        }
    }
    const __m512 across0 = _mm512_loadu_ps(across), across1 = _mm512_loadu_ps(across + 16);
    ROWS(END)
}

/* A tile at the edge, of which there are fewer rows or columns. */
static void edge(float *out, int64_t apart, const int32_t *a, const int32_t *b, int64_t pairs, const float *down,
                 const float *across, int add, int64_t high, int64_t wide) {
    float whole[HIGH * WIDE];
    tile(whole, WIDE, a, b, pairs, down, across, 0);
    for (int64_t i = 0; i < high; i++)
        for (int64_t j = 0; j < wide; j++) out[i * apart + j] = whole[i * WIDE + j] + (add ? out[i * apart + j] : 0);
}

int64_t multiplies_whole(void) { return 1; }

/* a[m][k] lies at a[m * a_down + k * a_across], b likewise; one of each pair is 1. Gives back whether it was done. */
int64_t multiply_whole(float *out, const float *a, int64_t a_down, int64_t a_across, const float *b, int64_t b_down,
                       int64_t b_across, int64_t M, int64_t K, int64_t N, int64_t add) {
    const int64_t deepest = even(K, DEEP, 2), tallest = even(M, TALL, HIGH), columns = even(N, N, WIDE);
    const int64_t panels = columns * deepest / 2, strips = tallest * deepest / 2, longest = columns + tallest;
    int32_t *right = _mm_malloc(4 * (panels + strips + 2 * (longest + WIDE)), 64), *left = right + panels;
    if (!right) return 0;
    float *across = (float *)(left + strips), *down = across + columns, *room = down + tallest + WIDE;
    for (int64_t k = 0; k < K; k += deepest) {
        const int64_t deep = least(deepest, K - k), pairs = (deep + 1) / 2;
        lay_out(right, across, room, b + k * b_down, b_across, b_down, N, deep, WIDE);
        for (int64_t i = 0; i < M; i += tallest) {
            const int64_t rows = least(tallest, M - i);
            lay_out(left, down, room, a + i * a_down + k * a_across, a_down, a_across, rows, deep, HIGH);
            for (int64_t n = 0; n < N; n += WIDE)
                for (int64_t m = 0; m < rows; m += HIGH) {
                    float *place = out + (i + m) * N + n;
                    const int32_t *x = left + m * pairs, *y = right + n * pairs;
                    if (m + HIGH <= rows && n + WIDE <= N)
                        tile(place, N, x, y, pairs, down + m, across + n, add || k);
                    else
                        edge(place, N, x, y, pairs, down + m, across + n, add || k, least(HIGH, rows - m),
                             least(WIDE, N - n));
                }
        }
    }
    _mm_free(right);
    return 1;
}

#else

int64_t multiplies_whole(void) { return 0; }

int64_t multiply_whole(float *out, const float *a, int64_t a_down, int64_t a_across, const float *b, int64_t b_down,
                       int64_t b_across, int64_t M, int64_t K, int64_t N, int64_t add) {
    (void)out, (void)a, (void)a_down, (void)a_across, (void)b, (void)b_down, (void)b_across;
    (void)M, (void)K, (void)N, (void)add;
    return 0;
}

#endif
