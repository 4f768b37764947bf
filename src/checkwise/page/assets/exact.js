// Arithmetic that agrees with Python's, bit for bit: the page must choose what the library chooses.

/** Shewchuk's exact sum, rounded once, as Python's math.fsum; one NaN makes NaN. */
function fsum(values) {
  const partials = [];
  for (let x of values) {
    if (Number.isNaN(x)) return NaN;
    let kept = 0;
    for (let i = 0; i < partials.length; i++) {
      let y = partials[i];
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low !== 0) partials[kept++] = low;
      x = high;
    }
    partials.length = kept;
    partials.push(x);
  }
  let n = partials.length;
  if (n === 0) return 0;
  let high = partials[--n];
  let low = 0;
  while (n > 0) {
    const x = high;
    const y = partials[--n];
    high = x + y;
    low = y - (high - x);
    if (low !== 0) break;
  }
  // Half-way cases round to even only if what is left over is looked at.
  if (n > 0 && ((low < 0 && partials[n - 1] < 0) || (low > 0 && partials[n - 1] > 0))) {
    const y = low * 2;
    const x = high + y;
    if (y === x - high) high = x;
  }
  return high;
}

/** NumPy's linear percentile of sorted values. */
function percentile(sorted, percent) {
  const at = (percent / 100) * (sorted.length - 1);
  const under = Math.floor(at);
  const share = at - under;
  const [a, b] = [sorted[under], sorted[Math.min(under + 1, sorted.length - 1)]];
  return share < 0.5 ? a + (b - a) * share : b - (b - a) * (1 - share);
}

/** The decimal a user wrote, exactly: {text, value, num, den}, or null where it is no number. */
function decimal(text) {
  const found = /^\s*\+?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?\s*$/.exec(text);
  if (!found || !(found[1] || found[2])) return null;
  const digits = BigInt((found[1] || '') + (found[2] || ''));
  const power = Number(found[3] || 0) - (found[2] || '').length;
  return {
    text: text.trim(),
    value: Number(text),
    num: power > 0 ? digits * 10n ** BigInt(power) : digits,
    den: power < 0 ? 10n ** BigInt(-power) : 1n,
  };
}

function gcd(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}

function lcm(numbers) {
  return numbers.reduce((all, n) => (all / gcd(all, n)) * n, 1n);
}

/** a / b of two whole numbers, rounded once. */
function ratio(a, b) {
  if (a < 0n) return -ratio(-a, b);
  const bits = (n) => n.toString(2).length;
  const shift = BigInt(Math.max(0, 66 - (bits(a) - bits(b))));
  const shifted = a << shift;
  let quotient = shifted / b;
  if (quotient * b !== shifted) quotient |= 1n; // what was cut off still decides a half-way case
  return Number(quotient) / 2 ** Number(shift);
}

/** A finite double as [numerator, denominator], both whole. */
function asRatio(x) {
  let power = 0;
  while (!Number.isInteger(x)) {
    x *= 2;
    power += 1;
  }
  return [BigInt(x), 1n << BigInt(power)];
}

/** |x|·10^digits to the nearest whole number, half-way cases to even. */
function scaled(x, digits) {
  let [num, den] = asRatio(Math.abs(x));
  if (digits >= 0) num *= 10n ** BigInt(digits);
  else den *= 10n ** BigInt(-digits);
  const whole = num / den;
  const twice = 2n * (num - whole * den);
  return twice > den || (twice === den && whole & 1n) ? whole + 1n : whole;
}

/** Python's format(x, '.<digits>f'). */
function fixed(x, digits) {
  if (Number.isNaN(x)) return 'nan';
  if (!Number.isFinite(x)) return x < 0 ? '-inf' : 'inf';
  const text = scaled(x, digits).toString().padStart(digits + 1, '0');
  const cut = text.length - digits;
  const sign = x < 0 || Object.is(x, -0) ? '-' : '';
  return sign + text.slice(0, cut) + (digits ? '.' + text.slice(cut) : '');
}

/** Python's format(x, '.<digits>g'). */
function general(x, digits) {
  if (!Number.isFinite(x)) return fixed(x, 0);
  if (x === 0) return Object.is(x, -0) ? '-0' : '0';
  let power = Math.floor(Math.log10(Math.abs(x)));
  let text = scaled(x, digits - 1 - power).toString();
  if (text.length > digits) {
    power += 1; // rounding carried over, or the logarithm was a hair too small
    text = scaled(x, digits - 1 - power).toString();
  } else if (text.length < digits) {
    power -= 1;
    text = scaled(x, digits - 1 - power).toString();
  }
  const sign = x < 0 ? '-' : '';
  const trim = (t) => (t.includes('.') ? t.replace(/\.?0+$/, '') : t);
  if (power < -4 || power >= digits) {
    const size = String(Math.abs(power)).padStart(2, '0');
    return `${sign}${trim(text[0] + '.' + text.slice(1))}e${power < 0 ? '-' : '+'}${size}`;
  }
  if (power < 0) return sign + trim('0.' + '0'.repeat(-power - 1) + text);
  const cut = power + 1;
  return sign + (cut < text.length ? trim(text.slice(0, cut) + '.' + text.slice(cut)) : text);
}

const POINTS = { decimals: 2 };
const SCORE = { decimals: 4 };

/** checkwise.text.number: a real minus sign, never a negative zero, a dash where there is none. */
function shown(value, { decimals }, signed = false) {
  if (Number.isNaN(value)) return '–';
  const text = Number.isFinite(value) ? fixed(Math.abs(value), decimals) : '∞';
  if (Number(text) === 0) return text;
  return (value < 0 ? '−' : signed ? '+' : '') + text;
}
