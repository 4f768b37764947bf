// The percentile bootstrap of checkwise.study, with the very same draws: NumPy's PCG64 generator
// from the state that Python wrote into the page, and its way to draw whole numbers below n.

const MULTIPLIER = [0x9fccf645, 0x4385df64, 0x1fc65da4, 0x2360ed05]; // lowest 32 bits first

/** A function that gives the generator's 32-bit numbers, from {state, inc} as decimal text. */
function pcg64({ state, inc }) {
  const limbs = (text) =>
    [0n, 32n, 64n, 96n].map((shift) => Number((BigInt(text) >> shift) & 0xffffffffn));
  let [s0, s1, s2, s3] = limbs(state);
  const [i0, i1, i2, i3] = limbs(inc);
  const [m0, m1, m2, m3] = MULTIPLIER;
  const low = (a, b) => Math.imul(a, b) >>> 0;
  // a·b minus its low half is a multiple of 2^32, so rounding undoes the error of doubles.
  const high = (a, b) => Math.floor((a * b - low(a, b)) / 4294967296 + 0.5);
  let waiting = -1;
  return () => {
    if (waiting >= 0) {
      const second = waiting;
      waiting = -1;
      return second;
    }
    const r0 = low(s0, m0) + i0;
    const r1 = high(s0, m0) + low(s0, m1) + low(s1, m0) + i1 + Math.floor(r0 / 4294967296);
    const r2 = high(s0, m1) + high(s1, m0) + low(s0, m2) + low(s1, m1) + low(s2, m0) + i2 +
      Math.floor(r1 / 4294967296);
    const r3 = high(s0, m2) + high(s1, m1) + high(s2, m0) + low(s0, m3) + low(s1, m2) +
      low(s2, m1) + low(s3, m0) + i3 + Math.floor(r2 / 4294967296);
    s0 = r0 >>> 0;
    s1 = r1 >>> 0;
    s2 = r2 >>> 0;
    s3 = r3 >>> 0;
    // xor the halves and rotate right by the top six bits
    const turn = s3 >>> 26;
    const swap = turn & 32;
    const upper = swap ? s2 ^ s0 : s3 ^ s1;
    const lower = swap ? s3 ^ s1 : s2 ^ s0;
    const by = turn & 31;
    waiting = (by ? (upper >>> by) | (lower << (32 - by)) : upper) >>> 0;
    return (by ? (lower >>> by) | (upper << (32 - by)) : lower) >>> 0;
  };
}

/** Lemire's draw of a whole number below n. */
function below(n, next) {
  const refused = (4294967296 - n) % n;
  return () => {
    for (;;) {
      const drawn = next();
      const left = Math.imul(drawn, n) >>> 0;
      if (left >= refused || left >= n) return Math.floor((drawn * n - left) / 4294967296 + 0.5);
    }
  };
}

const drawnFor = new Map();

/** The runs drawn for every resample of n runs, [resamples·n]; kept, for every table asks again. */
function draws(n, { resamples, generator }) {
  if (!drawnFor.has(n)) {
    const draw = below(n, pcg64(generator));
    const runs = new Uint16Array(resamples * n);
    for (let i = 0; i < runs.length; i++) runs[i] = draw();
    drawnFor.set(n, runs);
  }
  return drawnFor.get(n);
}

/** [low, high] for the mean of each column; every column has a value for each of n runs. */
function percentileIntervals(columns, settings) {
  const n = columns[0].length;
  if (n < 2) return columns.map(() => [NaN, NaN]);
  const drawn = draws(n, settings);
  const { resamples, level } = settings;
  const tail = (100 * (1 - level)) / 2;
  return columns.map((column) => {
    const values = Float64Array.from(column);
    const means = new Float64Array(resamples);
    for (let b = 0, i = 0; b < resamples; b++) {
      let sum = 0;
      for (const end = i + n; i < end; i++) sum += values[drawn[i]];
      means[b] = sum / n;
    }
    means.sort();
    return [percentile(means, tail), percentile(means, 100 - tail)];
  });
}

/** NumPy's linear percentile of sorted values. */
function percentile(sorted, percent) {
  const at = (percent / 100) * (sorted.length - 1);
  const under = Math.floor(at);
  const share = at - under;
  const [a, b] = [sorted[under], sorted[Math.min(under + 1, sorted.length - 1)]];
  return share < 0.5 ? a + (b - a) * share : b - (b - a) * (1 - share);
}
