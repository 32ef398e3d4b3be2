/* What the matrix products of products.c and whole.c share: sizes of blocks, and how numbers are turned. */

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The size of blocks of about `most`, a multiple of `of`, when `count` is shared out evenly among as few as can be. */
INLINE int64_t even(int64_t count, int64_t most, int64_t of) {
    const int64_t blocks = (count + most - 1) / most;
    return ((count + blocks - 1) / blocks + of - 1) / of * of;
}

/* to[i][j] = from[j][i] of 8 x 8 numbers of 32 bits, rows so far apart */
INLINE void transpose(float *to, int64_t apart, const float *from, int64_t step) {
    __m256 r[8], s[8], t[8];
    UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * step);
    UNROLL for (int i = 0; i < 8; i += 2) { /* pairs of numbers from pairs of rows */
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) /* fours */
        UNROLL for (int j = 0; j < 2; j++) {
            t[i + 2 * j] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0x44);
            t[i + 2 * j + 1] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0xee);
        }
    /* Halves, in order: rows may overlap. */
    UNROLL for (int i = 0; i < 4; i++) _mm256_storeu_ps(to + i * apart, _mm256_permute2f128_ps(t[i], t[i + 4], 0x20));
    UNROLL for (int i = 4; i < 8; i++) _mm256_storeu_ps(to + i * apart, _mm256_permute2f128_ps(t[i - 4], t[i], 0x31));
}
