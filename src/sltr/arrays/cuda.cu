// Small symmetric eigenproblems, QR decompositions, ridge solves, and whole iterations
// of the splitting in one kernel.
//
// Compiled at first use for REAL (type of the arrays; computations are in double),
// TILES (rows come in tiles of eight) and WARPS. One thread block works on one
// problem; matrices of the short side stay in its shared memory.

#define SIDE (8 * TILES)
// Four more than a multiple of eight: tiles are read without bank conflicts.
#define STRIDE (SIDE + 4)
#define THREADS (32 * WARPS)

struct Shared {
    double *sums;              // [WARPS][8]
    double *values;            // [copies][SIDE]
    double *turns;             // [2][copies][SIDE], cosines and sines of two rounds
    double *matrix, *vectors;  // [copies][SIDE][STRIDE]
    double *product;           // the same, not used by all
};

__device__ Shared share(double *memory, int copies) {
    Shared s;
    s.sums = memory;
    s.values = s.sums + 8 * WARPS;
    s.turns = s.values + copies * SIDE;
    s.matrix = s.turns + 2 * copies * SIDE;
    s.vectors = s.matrix + copies * SIDE * STRIDE;
    s.product = s.vectors + copies * SIDE * STRIDE;
    return s;
}

// d += a·b for tiles 8 × 4 and 4 × 8, one entry of each in every lane.
__device__ void multiply_tile(double (&d)[2], double a, double b) {
    asm(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d[0]), "+d"(d[1])
        : "d"(a), "d"(b));
}

// out = left·diag(weight)·right; a matrix is transposed if its flag is set.
__device__ void multiply(double *out, const double *left, bool turn_left,
                         const double *weight, const double *right, bool turn_right,
                         int copies) {
    int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, column = threadIdx.x % 4;
    for (int item = warp; item < copies * TILES * TILES; item += WARPS) {
        int copy = item / (TILES * TILES), tile = item % (TILES * TILES);
        int i = tile / TILES * 8 + row, j = tile % TILES * 8 + row;
        const double *a = left + copy * SIDE * STRIDE;
        const double *b = right + copy * SIDE * STRIDE;
        double d[2] = {0.0, 0.0};
        for (int k = column; k < SIDE; k += 4) {
            double scale = weight ? weight[copy * SIDE + k] : 1.0;
            multiply_tile(d, scale * a[turn_left ? k * STRIDE + i : i * STRIDE + k],
                          b[turn_right ? j * STRIDE + k : k * STRIDE + j]);
        }
        double *place = out + copy * SIDE * STRIDE + i * STRIDE;
        place += tile % TILES * 8 + 2 * column;
        place[0] = d[0];
        place[1] = d[1];
    }
    __syncthreads();
}

// Pair i of a round in which every index meets another: the circle method.
__device__ void pair_of(int round, int i, int n_even, int &p, int &q) {
    p = i ? round + i : n_even - 1;
    q = i ? round - i : round;
    if (i && p >= n_even - 1) p -= n_even - 1;
    if (q < 0) q += n_even - 1;
}

// Place of an entry in the upper half, where alone a symmetric matrix is kept.
__device__ int upper(int i, int j) { return i < j ? i * STRIDE + j : j * STRIDE + i; }

// The rotation that takes the entry between two diagonal ones to (nearly) zero. Its
// angle need not be exact, as it is repeated until all are zero; its length must be.
__device__ void find_turn(float across, float apart, double &cosine, double &sine) {
    float c = 1.0f, s = 0.0f, o = 2.0f * across;
    if (fabsf(o) > 1e-17f) {
        float inverse = rsqrtf(apart * apart + o * o);
        float square = 0.5f + 0.5f * fabsf(apart) * inverse;
        float rest = rsqrtf(square);
        c = square * rest;
        s = 0.5f * o * inverse * rest;
        if (apart < 0.0f) s = -s;
    }
    double short_by = 1.0 - (double)c * (double)c - (double)s * (double)s;
    double stretch = 1.0 + short_by * (0.5 + 0.375 * short_by);
    cosine = (double)c * stretch;
    sine = (double)s * stretch;
}

// Diagonalise `matrix`, its upper half, by rotations that `vectors` accumulate.
// `scale` is one over the matrix's size; entries below `limit` of it count as zero.
//
// In each round all indices meet in pairs. Some warps find the pairs' rotations and
// turn their own entries, while the others turn the vectors by those of the round
// before; then all turn the entries where two pairs cross.
template <int COPIES, bool VECTORS>
__device__ void diagonalise(Shared s, int n, const double *scale, double limit) {
    const int HALF = SIDE / 2, CROSSINGS = HALF * (HALF - 1) / 2;
    const int FINDERS = (COPIES * HALF + 31) / 32, TURNERS = WARPS - FINDERS;
    const int ITEMS = (COPIES * CROSSINGS + THREADS - 1) / THREADS;
    const int ROWS = (SIDE + TURNERS - 1) / TURNERS;
    int half = (n + 1) / 2, n_even = 2 * half, tid = threadIdx.x, warp = tid / 32;
    double own_scale = scale[tid / HALF < COPIES ? tid / HALF : 0];
    for (int sweep = 0; sweep < 30; sweep++) {
        bool any = false;
        for (int item = tid; item < COPIES * SIDE * SIDE; item += THREADS) {
            int copy = item / (SIDE * SIDE), i = item / SIDE % SIDE, j = item % SIDE;
            double entry = s.matrix[(copy * SIDE + i) * STRIDE + j];
            any = any || (i < j && j < n && fabs(entry) * scale[copy] > limit);
        }
        if (!__syncthreads_or(any)) return;
        for (int round = 0; round < n_even; round++) {
            double *turns = s.turns + (round & 1) * COPIES * SIDE;
            double *last = s.turns + (1 - (round & 1)) * COPIES * SIDE;
            int p, q, u, v;
            if (warp < FINDERS && round < n_even - 1) {
                int copy = tid / HALF, i = tid % HALF;
                if (copy < COPIES && i < half) {
                    pair_of(round, i, n_even, p, q);
                    double *m = s.matrix + copy * SIDE * STRIDE, c, d;
                    double a = m[p * STRIDE + p], b = m[q * STRIDE + q];
                    double o = m[upper(p, q)];
                    find_turn((float)(own_scale * o), (float)(own_scale * (b - a)), c, d);
                    turns[2 * tid] = c;
                    turns[2 * tid + 1] = d;
                    double e = c * a - d * o, f = c * o - d * b;
                    double g = d * a + c * o, h = d * o + c * b;
                    m[p * STRIDE + p] = c * e - d * f;
                    m[q * STRIDE + q] = d * g + c * h;
                    m[upper(p, q)] = d * e + c * f;
                }
            }
            if (VECTORS && warp >= FINDERS && round > 0) {
                for (int item = tid % 32; item < COPIES * HALF; item += 32) {
                    int copy = item / HALF, i = item % HALF;
                    if (i >= half) continue;
                    pair_of(round - 1, i, n_even, p, q);
                    double *m = s.vectors + copy * SIDE * STRIDE;
                    double c = last[2 * item], d = last[2 * item + 1];
                    double a[ROWS], b[ROWS];
#pragma unroll
                    for (int k = 0; k < ROWS; k++) {
                        int row = warp - FINDERS + k * TURNERS;
                        a[k] = row < n ? m[row * STRIDE + p] : 0.0;
                        b[k] = row < n ? m[row * STRIDE + q] : 0.0;
                    }
#pragma unroll
                    for (int k = 0; k < ROWS; k++) {
                        int row = warp - FINDERS + k * TURNERS;
                        if (row >= n) continue;
                        m[row * STRIDE + p] = c * a[k] - d * b[k];
                        m[row * STRIDE + q] = d * a[k] + c * b[k];
                    }
                }
            }
            __syncthreads();
            if (round == n_even - 1) break;
#pragma unroll
            for (int k = 0; k < ITEMS; k++) {
                // Crossings by how far apart the pairs' numbers are, round a circle.
                int item = tid + k * THREADS, copy = item / CROSSINGS;
                int i = item % CROSSINGS % HALF;
                int j = (i + item % CROSSINGS / HALF + 1) % HALF;
                if (copy >= COPIES || i >= half || j >= half) continue;
                pair_of(round, i, n_even, p, q);
                pair_of(round, j, n_even, u, v);
                const double *left = turns + 2 * (copy * HALF + i);
                const double *right = turns + 2 * (copy * HALF + j);
                double *m = s.matrix + copy * SIDE * STRIDE;
                double a = m[upper(p, u)], b = m[upper(p, v)];
                double c = m[upper(q, u)], d = m[upper(q, v)];
                double e = left[0] * a - left[1] * c, f = left[0] * b - left[1] * d;
                double g = left[1] * a + left[0] * c, h = left[1] * b + left[0] * d;
                m[upper(p, u)] = right[0] * e - right[1] * f;
                m[upper(p, v)] = right[1] * e + right[0] * f;
                m[upper(q, u)] = right[0] * g - right[1] * h;
                m[upper(q, v)] = right[1] * g + right[0] * h;
            }
            __syncthreads();
        }
    }
}

// Eigenvalues (ascending) and, unless null, eigenvectors of symmetric n × n matrices.
extern "C" __global__ void __launch_bounds__(THREADS)
eigh(int n, const REAL *matrices, REAL *values, REAL *vectors) {
    extern __shared__ double memory[];
    Shared s = share(memory, 1);
    long long start = (long long)blockIdx.x * n * n;
    for (int item = threadIdx.x; item < SIDE * SIDE; item += THREADS) {
        int i = item / SIDE, j = item % SIDE;
        bool inside = i < n && j < n;
        // Of a matrix that is symmetric to rounding, the lower half counts.
        int place = i < j ? j * n + i : i * n + j;
        s.matrix[i * STRIDE + j] = inside ? (double)matrices[start + place] : 0.0;
        s.vectors[i * STRIDE + j] = i == j ? 1.0 : 0.0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE; i += THREADS) {
        double largest = 0.0;
        for (int j = 0; j < n; j++)
            largest = fmax(largest, fabs(s.matrix[i * STRIDE + j]));
        s.values[i] = largest;
    }
    __syncthreads();
    double largest = 0.0;
    for (int i = 0; i < n; i++) largest = fmax(largest, s.values[i]);
    double scale = largest > 0.0 ? 1.0 / largest : 0.0;
    if (vectors)
        diagonalise<1, true>(s, n, &scale, 1e-15);
    else
        diagonalise<1, false>(s, n, &scale, 1e-15);
    for (int j = threadIdx.x; j < n; j += THREADS) {
        double value = s.matrix[j * STRIDE + j];
        int place = 0;
        for (int i = 0; i < n; i++) {
            double other = s.matrix[i * STRIDE + i];
            place += other < value || (other == value && i < j);
        }
        values[(long long)blockIdx.x * n + place] = (REAL)value;
        if (vectors)
            for (int i = 0; i < n; i++)
                vectors[start + i * n + place] = (REAL)s.vectors[i * STRIDE + j];
    }
}

#if TILES <= 5

#define PAIRS (TILES * (TILES + 1) / 2)

// One problem's arrays. Copies come in pairs: nuclear norm (0), spectral ball (1).
struct State {
    const REAL *pilot;         // [n][q]
    REAL *x;                   // [n][q]
    REAL *y, *dual, *before;   // [2][n][q]
    double radius, weight;     // of the entrywise terms
    double steps[2];
};

struct Sums { double x, primal[2], change[2]; };

// How a pass moves the copies, and whether it remembers where they were.
struct Move { double relax, shrink[2]; bool remember; };

// Add the warps' Gram matrices, one after another: the sum has one order.
__device__ void collect(double *out, const double (&gram)[2][PAIRS][2]) {
    int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, column = threadIdx.x % 4;
    for (int turn = 0; turn < WARPS; turn++) {
        if (warp == turn) {
#pragma unroll
            for (int c = 0; c < 2; c++)
#pragma unroll
                for (int i = 0, at = 0; i < TILES; i++)
#pragma unroll
                    for (int j = i; j < TILES; j++, at++)
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            double *place = out + (c * SIDE + 8 * i + row) * STRIDE +
                                            8 * j + 2 * column + e;
                            *place = (turn ? *place : 0.0) + gram[c][at][e];
                        }
        }
        __syncthreads();
    }
    for (int item = threadIdx.x; item < 2 * SIDE * SIDE; item += THREADS) {
        int copy = item / (SIDE * SIDE), i = item / SIDE % SIDE, j = item % SIDE;
        if (i / 8 > j / 8)
            out[(copy * SIDE + i) * STRIDE + j] = out[(copy * SIDE + j) * STRIDE + i];
    }
    __syncthreads();
}

// Go over the matrices once. First find dual parts and point by the filters in
// shared memory (FILTER), or read them; then keep them and add up their distances
// (HOLD), or move the copies and find their Gram matrices.
template <bool FILTER, bool HOLD>
__device__ Sums pass_over(const State &p, int n, int q, Shared s, const Move &move) {
    int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, column = threadIdx.x % 4;
    long long size = (long long)n * q;
    double rates[2] = {1.0 / p.steps[0], 1.0 / p.steps[1]};
    double mean = 1.0 / (rates[0] + rates[1]), threshold = p.weight * mean;
    rates[0] *= mean;
    rates[1] *= mean;
    double gram[2][PAIRS][2] = {};
    Sums sums = {};
    for (int first = 8 * warp; first < q; first += 8 * WARPS) {
        double dual[2][TILES][2] = {}, y[2][TILES][2], z[TILES][2], x[TILES][2];
        double before[2][TILES][2];
        // All is read before anything is written: reads need not wait in turn.
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int i = 8 * t + row, j = first + 2 * column + e;
                bool inside = i < n && j < q;
                long long place = inside ? (long long)i * q + j : 0;
                z[t][e] = inside ? (double)p.pilot[place] : 0.0;
                x[t][e] = inside && !FILTER ? (double)p.x[place] : 0.0;
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    y[c][t][e] = inside ? (double)p.y[c * size + place] : 0.0;
                    if (inside && !FILTER)
                        dual[c][t][e] = (double)p.dual[c * size + place];
                    if (inside && HOLD)
                        before[c][t][e] = (double)p.before[c * size + place];
                }
            }
        if (FILTER) {
#pragma unroll
            for (int k = 0; k < SIDE; k += 4) {
                bool inside = first + row < q && k + column < n;
                long long place = inside ? (long long)(k + column) * q + first + row : 0;
                double a = inside ? (double)p.y[place] : 0.0;
                double b = inside ? (double)p.y[size + place] : 0.0;
                b -= inside ? (double)p.pilot[place] : 0.0;
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    int at = (8 * t + row) * STRIDE + k + column;
                    multiply_tile(dual[0][t], s.matrix[at], a);
                    multiply_tile(dual[1][t], s.matrix[SIDE * STRIDE + at], b);
                }
            }
        }
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int i = 8 * t + row, j = first + 2 * column + e;
                bool inside = i < n && j < q;
                long long place = inside ? (long long)i * q + j : 0;
                double near[2] = {y[0][t][e] - dual[0][t][e], y[1][t][e] - dual[1][t][e]};
                if (FILTER) {
                    double v = rates[0] * (near[0] - dual[0][t][e]) +
                               rates[1] * (near[1] - dual[1][t][e]);
                    v -= fmin(fmax(v, -threshold), threshold);
                    x[t][e] = fmin(fmax(v, z[t][e] - p.radius), z[t][e] + p.radius);
                }
                if (HOLD && inside) {
                    p.x[place] = (REAL)x[t][e];
                    sums.x += x[t][e] * x[t][e];
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        p.dual[c * size + place] = (REAL)dual[c][t][e];
                        double apart = x[t][e] - near[c];
                        double moved = near[c] - before[c][t][e];
                        sums.primal[c] += apart * apart;
                        sums.change[c] += moved * moved;
                    }
                } else if (inside) {
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        if (move.remember) p.before[c * size + place] = (REAL)near[c];
                        y[c][t][e] = near[c] + dual[c][t][e] * move.shrink[c] +
                                     move.relax * (x[t][e] - near[c]);
                        p.y[c * size + place] = (REAL)y[c][t][e];
                    }
                }
                y[1][t][e] -= z[t][e];
            }
        // The order of columns does not matter to a Gram matrix.
#pragma unroll
        for (int c = 0; c < 2 * !HOLD; c++)
#pragma unroll
            for (int i = 0, at = 0; i < TILES; i++)
#pragma unroll
                for (int j = i; j < TILES; j++, at++) {
                    multiply_tile(gram[c][at], y[c][i][0], y[c][j][0]);
                    multiply_tile(gram[c][at], y[c][i][1], y[c][j][1]);
                }
    }
    if (!HOLD) collect(s.product, gram);
    return sums;
}

// Turn Gram matrices in `product` into filters in `matrix`: what they cut off.
__device__ void make_filters(Shared s, int n, const double *radii) {
    int tid = threadIdx.x;
    double scale[2];
    for (int c = 0; c < 2; c++) {
        double trace = 0.0;
        for (int i = 0; i < n; i++) trace += s.product[(c * SIDE + i) * STRIDE + i];
        scale[c] = trace > 0.0 ? 1.0 / trace : 0.0;
    }
    // In the last eigenvectors' basis the matrix is nearly diagonal.
    multiply(s.matrix, s.product, false, nullptr, s.vectors, false, 2);
    for (int item = tid; item < 2 * SIDE * STRIDE; item += THREADS)
        s.product[item] = s.matrix[item];
    __syncthreads();
    multiply(s.matrix, s.vectors, true, nullptr, s.product, false, 2);
    // The last sweep squares what is left: 1e-13 and far less after it.
    diagonalise<2, true>(s, n, scale, 1e-13);
    for (int item = tid; item < 2 * SIDE; item += THREADS) {
        int copy = item / SIDE, i = item % SIDE;
        double square = i < n ? s.matrix[(copy * SIDE + i) * STRIDE + i] : 0.0;
        double kept = fmin(radii[copy] * rsqrt(fmax(square, 1e-300)), 1.0);
        s.values[item] = i >= n ? 0.0 : copy ? 1.0 - kept : kept;
    }
    __syncthreads();
    multiply(s.matrix, s.vectors, false, s.values, s.vectors, true, 2);
}

__device__ void add_up(Sums &sums, double *shared) {
    double *all = &sums.x;
    for (int k = 0; k < 5; k++) {
        for (int step = 16; step; step /= 2)
            all[k] += __shfl_down_sync(0xffffffffu, all[k], step);
        if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32 * 8 + k] = all[k];
    }
    __syncthreads();
    for (int k = 0; k < 5; k++) {
        all[k] = 0.0;
        for (int warp = 0; warp < WARPS; warp++) all[k] += shared[warp * 8 + k];
    }
    __syncthreads();
}

// Factor on a step's weight that balances two squared distances.
__device__ double balance(double primal, double change) {
    if (!(primal > 0.0 && change > 0.0)) return 1.0;
    double ratio = sqrt(primal / change);
    if (ratio <= 1.5 && ratio >= 1.0 / 1.5) return 1.0;
    return fmin(fmax(sqrt(ratio), 0.5), 2.0);
}

// Sum over the lanes of a warp, in all of them.
__device__ double over_lanes(double part) {
    for (int apart = 16; apart; apart /= 2)
        part += __shfl_xor_sync(0xffffffff, part, apart);
    return part;
}

// Subtract from a column its part along a reflection's vector, twice.
__device__ void reflect(double *column, const double *vector, double head, double twice,
                        int from, int m) {
    int lane = threadIdx.x % 32;
    double along = 0.0;
    for (int i = from + lane; i < m; i += 32)
        along += (i == from ? head : vector[i]) * column[i];
    along = twice * over_lanes(along);
    for (int i = from + lane; i < m; i += 32)
        column[i] -= along * (i == from ? head : vector[i]);
    __syncwarp();
}

// Householder's QR decomposition of m × r matrices. Columns are kept one after
// another; a reflection's vector stays below the diagonal of the column it made zero,
// but for its first entry. A warp has the same columns throughout.
extern "C" __global__ void __launch_bounds__(THREADS)
qr(int m, int r, const REAL *matrices, REAL *basis, REAL *triangle) {
    extern __shared__ double memory[];
    int k = m < r ? m : r, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    double *a = memory, *q = a + m * r, *head = q + m * k;
    double *twice = head + k, *diagonal = twice + k;
    long long start = (long long)blockIdx.x * m * r;
    for (int item = threadIdx.x; item < m * r; item += THREADS)
        a[item % r * m + item / r] = (double)matrices[start + item];
    for (int item = threadIdx.x; item < m * k; item += THREADS)
        q[item] = item / m == item % m ? 1.0 : 0.0;
    __syncthreads();
    for (int j = 0; j < k; j++) {
        const double *vector = a + j * m;
        double square = 0.0;
        for (int i = j + lane; i < m; i += 32) square += vector[i] * vector[i];
        double length = sqrt(over_lanes(square)), first = vector[j];
        if (threadIdx.x == 0) {
            bool any = length > 0.0;
            diagonal[j] = first > 0.0 ? -length : length;
            head[j] = first - diagonal[j];
            twice[j] = any ? 1.0 / (length * (length + fabs(first))) : 0.0;
        }
        __syncthreads();
        for (int c = warp; c < r; c += WARPS)
            if (c > j) reflect(a + c * m, vector, head[j], twice[j], j, m);
        __syncthreads();
    }
    for (int j = k - 1; j >= 0; j--)
        for (int c = warp; c < k; c += WARPS)
            if (c >= j) reflect(q + c * m, a + j * m, head[j], twice[j], j, m);
    __syncthreads();
    for (int item = threadIdx.x; item < m * k; item += THREADS)
        basis[(long long)blockIdx.x * m * k + item] =
            (REAL)q[item % k * m + item / k];
    for (int item = threadIdx.x; item < k * r; item += THREADS) {
        int i = item / r, c = item % r;
        double entry = i < c ? a[c * m + i] : (i == c ? diagonal[i] : 0.0);
        triangle[(long long)blockIdx.x * k * r + item] = (REAL)entry;
    }
}

// Solve (S·(A − L·Rᵀ)·S + shift·I)·v = S·y for S·v by Cholesky's decomposition, S a
// diagonal (or none); a shift of zero counts as one. `beside` is [y, L, R], d × (1 + 2b).
//
// The lower half is kept column by column, with y as one more row: it ends as the
// triangle's own solution. Two lanes share a row. What rounding leaves of a column gets
// no weight.
extern "C" __global__ void __launch_bounds__(THREADS)
solve(int d, int b, const REAL *matrices, const REAL *beside, const REAL *shifts,
      const REAL *scale, REAL *solutions) {
    extern __shared__ double memory[];
    double *columns = memory, *inverse = memory + d * (d + 3) / 2, *found = inverse + d;
    const double least = sizeof(REAL) == 4 ? 1.2e-7 : 2.3e-16;
    long long g = blockIdx.x;
    int n_beside = 1 + 2 * b, tid = threadIdx.x, row = tid / 2;
    double shift = (double)shifts[g] > 0.0 ? (double)shifts[g] : 1.0;
    const REAL *matrix = matrices + g * d * d;
    beside += g * d * n_beside;
    if (scale) scale += g * d;
    for (int item = tid; item < d * d; item += THREADS) {
        int i = item / d, j = item % d;
        if (j > i) continue;
        double value = matrix[item];
        for (int k = 1; k <= b; k++)
            value -= (double)beside[i * n_beside + k] * (double)beside[j * n_beside + b + k];
        if (scale) value *= (double)scale[i] * (double)scale[j];
        columns[j * d - j * (j - 1) / 2 + i] = i == j ? value + shift : value;
    }
    for (int j = tid; j < d; j += THREADS) {
        double value = beside[j * n_beside];
        columns[j * d - j * (j - 1) / 2 + d] = scale ? value * (double)scale[j] : value;
    }
    __syncthreads();
    for (int j = 0; j < d; j++) {
        bool inside = row >= j && row <= d;
        double *own = columns + j * d - j * (j - 1) / 2, sum = 0.0;
        if (inside) {
#pragma unroll 4
            for (int k = tid % 2; k < j; k += 2) {
                const double *column = columns + k * d - k * (k - 1) / 2;
                sum += column[row] * column[j];
            }
        }
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        double value = inside ? own[row] - sum : 0.0;
        if (tid == 2 * j) inverse[j] = value > least * own[j] ? rsqrt(value) : 0.0;
        __syncthreads();
        if (inside && tid % 2 == 0) own[row] = value * inverse[j];
        __syncthreads();
    }
    double rest = tid < d ? columns[tid * d - tid * (tid - 1) / 2 + d] : 0.0;
    for (int j = d - 1; j >= 0; j--) {
        if (tid == j) found[j] = rest * inverse[j];
        __syncthreads();
        if (tid < j) rest -= columns[tid * d - tid * (tid - 1) / 2 + j] * found[j];
    }
    __syncthreads();
    for (int j = tid; j < d; j += THREADS)
        solutions[g * d + j] = (REAL)(scale ? found[j] * (double)scale[j] : found[j]);
}

// Iterate each problem until its copies agree to `eager`, or a certificate is due.
// The copies are found and left as they were before they moved towards the point.
extern "C" __global__ void __launch_bounds__(THREADS)
iterate(int n, int q, const REAL *pilot, const REAL *radius, const REAL *weight,
        const REAL *low_radius, const REAL *low_weight, REAL *x, REAL *y, REAL *dual,
        REAL *before, REAL *steps, const REAL *eager, REAL *apart, long long *n_iter,
        const bool *done, int check_every, int adapt_until, int look_every,
        int last, double relax) {
    long long g = blockIdx.x, size = (long long)n * q;
    if (done[g]) return;
    extern __shared__ double memory[];
    Shared s = share(memory, 2);
    State p = {pilot + g * size, x + g * size, y + 2 * g * size, dual + 2 * g * size,
               before + 2 * g * size, (double)radius[g], (double)weight[g],
               {(double)steps[2 * g], (double)steps[2 * g + 1]}};
    for (int item = threadIdx.x; item < 2 * SIDE * STRIDE; item += THREADS)
        s.vectors[item] = item / STRIDE % SIDE == item % STRIDE ? 1.0 : 0.0;
    int t = (int)n_iter[g];
    bool moved = false;
    double shrink[2] = {1.0, 1.0};
    while (true) {
        if (!moved)
            pass_over<false, false>(p, n, q, s, {relax, {shrink[0], shrink[1]}, false});
        t++;
        double radii[2] = {(double)low_weight[g] * p.steps[0], (double)low_radius[g]};
        make_filters(s, n, radii);
        bool check = t % check_every == 0 || t == last;
        bool adapt = (t + 1) % check_every == 0 && t + 1 <= adapt_until;
        moved = !check && !adapt;
        if (moved) {
            bool remember = (t + 2) % check_every == 0;
            pass_over<true, false>(p, n, q, s, {relax, {1.0, 1.0}, remember});
            continue;
        }
        Sums sums = pass_over<true, true>(p, n, q, s, {});
        add_up(sums, s.sums);
        double apart_now = sqrt(fmax(sums.primal[0], sums.primal[1]));
        apart_now /= sums.x > 0.0 ? sqrt(sums.x) : 1.0;
        bool agree = apart_now <= (double)eager[g];
        if (check && (agree || t % look_every == 0 || t == last)) {
            if (threadIdx.x == 0) {
                apart[g] = (REAL)apart_now;
                n_iter[g] = t;
                for (int c = 0; c < 2; c++) steps[2 * g + c] = (REAL)p.steps[c];
            }
            return;
        }
        for (int c = 0; c < 2; c++) {
            shrink[c] = adapt ? 1.0 / balance(sums.primal[c], sums.change[c]) : 1.0;
            p.steps[c] *= shrink[c];
        }
    }
}

#endif
