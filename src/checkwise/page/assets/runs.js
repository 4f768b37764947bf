// The data of the page: numbers packed tightly, names as plain text.

/** Numbers of one type. They were split into planes of equal bytes, deflated, and put in base64. */
async function numbersOf(Type, base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = Type.BYTES_PER_ELEMENT;
  const count = planes.length / size;
  const bytes = new Uint8Array(planes.length);
  for (let b = 0; b < size; b++) {
    for (let i = 0; i < count; i++) bytes[i * size + b] = planes[b * count + i];
  }
  return new Type(bytes.buffer);
}

/** Runs as rules.js wants them; each lists its metrics in the order they are packed. */
async function unpack(data) {
  const floats = await numbersOf(Float64Array, data.floats);
  const Whole = { u2: Uint16Array, u4: Uint32Array, f8: Float64Array }[data.kind];
  const whole = await numbersOf(Whole, data.whole);
  const held = data.held ? await numbersOf(Float64Array, data.held.values) : null;
  const higher = new Set(data.metrics.filter((m) => m.higher).map((m) => m.name));
  let at = 0;
  let count = 0;
  let heldAt = 0;
  const take = (size) => floats.subarray(at, (at += size));
  return data.runs.map((entry, number) => {
    const steps = data.steps[entry.steps];
    const domains = data.domains[entry.domains];
    const T = steps.length;
    const cells = T * domains.length;
    const diverged = new Uint8Array(T);
    for (const t of entry.diverged) diverged[t] = 1;
    const values = {};
    const pooled = {};
    for (const name of data.columns[entry.columns].values) values[name] = take(cells);
    for (const name of data.columns[entry.columns].pooled) pooled[name] = take(T);
    const targets = {};
    for (const name of data.held ? data.held.metrics : []) {
      targets[name] = held.subarray(heldAt, (heldAt += T));
    }
    return {
      ...entry, number, steps, domains, diverged, values, pooled, higher, targets,
      counts: entry.counts === null ? null : data.counts[entry.counts],
      correct: entry.exact ? whole.subarray(count, (count += cells)) : null,
      accuracy: entry.exact ? null : values.accuracy,
      draw: BigInt('0x' + entry.draw),
    };
  });
}
