// One run drawn: accuracy with its tolerance, objectives beneath, the choices marked.

const LEVELS = 7;
const LEFT = 46;
const RIGHT = 14;
const TOP = 26;

function scaleOf(low, high, start, end) {
  const width = high - low || 1;
  const map = (v) => start + Math.min(Math.max((v - low) / width, 0), 1) * (end - start);
  return Object.assign(map, { low, high, start, end, holds: (v) => v >= low && v <= high });
}

/** Round numbers between two ends, about `count` of them. */
function ticksBetween(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k <= Math.floor(high / step + 1e-9); k++) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

const tickText = (v) => String(v).replace('-', '−');
const px = (v) => Number(v.toFixed(2));
const line = (x1, y1, x2, y2, kind) =>
  s('line', { x1: px(x1), y1: px(y1), x2: px(x2), y2: px(y2), class: kind });
const label = (x, y, text, kind, anchor = 'start') =>
  s('text', { x: px(x), y: px(y), class: kind, 'text-anchor': anchor }, text);

/** Shape as well as colour tells rules apart. */
const SHAPES = [
  (x, y, r, kind) =>
    s('rect', { x: px(x - r), y: px(y - r), width: 2 * r, height: 2 * r, class: kind }),
  (x, y, r, kind) =>
    s('path', { d: `M${px(x)} ${px(y - r)}l${r} ${r}l-${r} ${r}l-${r} -${r}z`, class: kind }),
];

/** facts: {run, accuracy (%), near, tolerance, panels: [{title, metric, values}], marks}. */
function drawRun(facts, width) {
  const { run } = facts;
  const steps = run.steps;
  const x = scaleOf(steps[0], steps[steps.length - 1], LEFT + 6, width - RIGHT - 6);
  const tall = width > 500 ? 230 : 200;
  const parts = [accuracyPanel(facts, x, TOP, TOP + tall)];
  let top = TOP + tall + 34;
  const view = inView(facts);
  for (const panel of facts.panels) {
    const seen = panel.values.filter((v, t) => view[t] && v !== null);
    const low = Math.min(...seen);
    const high = Math.max(...seen);
    const pad = 0.1 * (high - low) || 1e-6;
    const y = scaleOf(low - pad, high + pad, top + 104, top);
    parts.push(frame(panel.title, x, y, 4), points(facts, panel.values, x, y));
    top += 138;
  }
  const bottom = top - 34;
  const ticks = ticksBetween(steps[0], steps[steps.length - 1], width > 500 ? 8 : 4);
  for (const step of ticks.filter(Number.isInteger)) {
    parts.push(label(x(step), bottom + 18, tickText(step), 'tick', 'middle'));
  }
  parts.push(label(width - RIGHT, bottom + 36, 'step', 'axis', 'end'));
  const guides = facts.marks.map((mark, i) =>
    line(x(steps[mark.index]), TOP, x(steps[mark.index]), bottom, `guide rule${i}`));
  const chose = facts.marks.map((mark) => `${mark.rule} chose step ${steps[mark.index]}`);
  return s('svg', {
    viewBox: `0 0 ${width} ${bottom + 44}`, role: 'img', class: 'plot',
    style: `max-width:${width}px`,
    'aria-label': `Validation of ${run.name} over its training steps. ${chose.join('; ')}.`,
  }, guides, parts);
}

/** Checkpoints near enough to the best accuracy to be drawn in place; the rest lie outside. */
function inView({ accuracy, near, tolerance }) {
  const known = accuracy.filter((a) => a !== null);
  const best = Math.max(...known);
  const gaps = known.map((a) => best - a).sort((a, b) => a - b);
  let usual = gaps[Math.floor(0.75 * (gaps.length - 1))];
  if (tolerance > 0) usual = Math.min(Math.max(usual, 4 * tolerance), 10 * tolerance);
  return accuracy.map((a, t) => near[t] || (a !== null && best - a <= Math.max(usual, 1e-9)));
}

function accuracyPanel(facts, x, top, bottom) {
  const { accuracy, tolerance } = facts;
  const view = inView(facts);
  const best = Math.max(...accuracy.filter((a) => a !== null));
  const seen = accuracy.filter((a, t) => view[t] && a !== null);
  const edge = best - tolerance;
  const low = Math.min(...seen, Math.max(best - 1.3 * tolerance, 0), best - 1e-6);
  const pad = 0.08 * (best - low);
  const y = scaleOf(low - pad, best + pad, bottom, top);
  return [
    frame(facts.title, x, y),
    s('rect', { x: LEFT, y: px(y(best)), width: px(x.end - LEFT + 6),
      height: px(Math.max(y(edge) - y(best), 1)), class: 'band' }),
    line(LEFT, y(edge), x.end + 6, y(edge), 'edge'),
    tolerance > 0 ? label(LEFT + 6, y(edge) - 5,
      `within ${inPoints(tickText(tolerance))} of the best`, 'small') : null,
    points(facts, accuracy, x, y),
  ];
}

function frame(title, x, y, count = 5) {
  const lines = ticksBetween(y.low, y.high, count).flatMap((value) => [
    line(LEFT, y(value), x.end + 6, y(value), 'grid'),
    label(LEFT - 7, y(value) + 4, tickText(value), 'tick', 'end'),
  ]);
  return [label(LEFT, y.end - 9, title, 'panel'), lines,
    line(LEFT, y.start, x.end + 6, y.start, 'base')];
}

function points(facts, values, x, y) {
  const { run, near } = facts;
  const at = [...run.steps.keys()];
  const known = at.filter((t) => values[t] !== null);
  const path = known.slice(1).map((t, i) =>
    piece(run.steps[known[i]], values[known[i]], run.steps[t], values[t], x, y)).join('');
  const dots = at.map((t) => {
    const left = x(run.steps[t]);
    if (values[t] === null) return label(left, y.start - 3, '×', 'lost', 'middle');
    if (!y.holds(values[t])) return null;
    const kind = near[t] ? `dot r${facts.levels[t]}` : 'dot out';
    return s('circle', { cx: px(left), cy: px(y(values[t])), r: near[t] ? 4.5 : 3, class: kind },
      s('title', {}, facts.hover(t)));
  });
  const marks = facts.marks.map((mark, i) =>
    SHAPES[i % SHAPES.length](x(run.steps[mark.index]), y(values[mark.index]), 8 + 2.5 * i,
      `mark rule${i}`));
  return [s('path', { d: path, class: 'path' }), dots, marks];
}

/** A line between two checkpoints, cut where it leaves the frame. */
function piece(fromStep, from, toStep, to, x, y) {
  const at = (edge) => (to === from ? 0 : (edge - from) / (to - from));
  const [one, other] = [at(y.low), at(y.high)].sort((a, b) => a - b);
  const outside = !y.holds(from) && !y.holds(to) && (from < y.low) === (to < y.low);
  if (outside || (to === from && !y.holds(from))) return '';
  const [begin, end] = to === from ? [0, 1] : [Math.max(0, one), Math.min(1, other)];
  const place = (share) => `${px(x(fromStep + share * (toStep - fromStep)))} ` +
    `${px(y(from + share * (to - from)))}`;
  return `M${place(begin)}L${place(end)}`;
}

/** Which of the colours each checkpoint has: 0 for the best value near the best accuracy. */
function levelsOf({ values, metric }, near) {
  const sign = metric.higher ? -1 : 1;
  const inside = values.filter((v, t) => near[t] && v !== null).map((v) => sign * v);
  const low = Math.min(...inside);
  const width = Math.max(...inside) - low;
  return values.map((v) => (width === 0 || v === null
    ? 0 : Math.min(LEVELS - 1, Math.max(0, Math.trunc((LEVELS * (sign * v - low)) / width)))));
}
