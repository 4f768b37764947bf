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

/** facts: {run, accuracy (%), eligible, tolerance, panels: [{title, name, values}], marks}. */
function drawRun(facts, width) {
  const { run } = facts;
  const steps = run.steps;
  const x = scaleOf(steps[0], steps[steps.length - 1], LEFT + 6, width - RIGHT - 6);
  const tall = width > 500 ? 230 : 200;
  const parts = [accuracyPanel(facts, x, TOP, TOP + tall)];
  let top = TOP + tall + 34;
  const shown = inView(facts);
  for (const panel of facts.panels) {
    const seen = panel.values.filter((v, t) => shown[t] && Number.isFinite(v));
    const low = Math.min(...seen);
    const high = Math.max(...seen);
    const pad = 0.1 * (high - low) || 1e-6;
    const y = scaleOf(low - pad, high + pad, top + 104, top);
    parts.push(frame(panel.title, x, y, 4), points(facts, panel.values, x, y));
    top += 138;
  }
  const bottom = top - 34;
  for (const step of ticksBetween(steps[0], steps[steps.length - 1], width > 500 ? 8 : 4)) {
    parts.push(label(x(step), bottom + 18, tickText(step), 'tick', 'middle'));
  }
  parts.push(label(width - RIGHT, bottom + 36, 'training step', 'axis', 'end'));
  const guides = facts.marks.map((mark, i) =>
    line(x(steps[mark.index]), TOP, x(steps[mark.index]), bottom, `guide rule${i}`));
  const chose = facts.marks.map((mark) => `${mark.rule} chose step ${steps[mark.index]}`);
  return s('svg', {
    viewBox: `0 0 ${width} ${bottom + 44}`, role: 'img', class: 'plot',
    style: `max-width:${width}px`,
    'aria-label': `Source validation of ${run.name} over its training steps. ${chose.join('; ')}.`,
  }, guides, parts);
}

/** Checkpoints near enough to the best accuracy to be drawn in place; the rest sit on the edge. */
function inView({ accuracy, eligible, tolerance }) {
  const known = accuracy.filter(Number.isFinite);
  const best = Math.max(...known);
  const gaps = known.map((a) => best - a).sort((a, b) => a - b);
  let usual = percentile(gaps, 75);
  if (tolerance > 0) usual = Math.min(Math.max(usual, 4 * tolerance), 10 * tolerance);
  return accuracy.map((a, t) => eligible[t] || best - a <= Math.max(usual, 1e-9));
}

function accuracyPanel(facts, x, top, bottom) {
  const { accuracy, tolerance } = facts;
  const shown = inView(facts);
  const best = Math.max(...accuracy.filter(Number.isFinite));
  const seen = accuracy.filter((a, t) => shown[t] && Number.isFinite(a));
  const edge = best - tolerance;
  const low = Math.min(...seen, Math.max(best - 1.3 * tolerance, 0), best - 1e-6);
  const pad = 0.08 * (best - low);
  const y = scaleOf(low - pad, best + pad, bottom, top);
  return [
    frame(facts.worst ? 'Worst-domain source accuracy (%)' : 'Mean source accuracy (%)', x, y),
    s('rect', { x: LEFT, y: px(y(best)), width: px(x.end - LEFT + 6),
      height: px(Math.max(y(edge) - y(best), 1)), class: 'band' }),
    line(LEFT, y(edge), x.end + 6, y(edge), 'edge'),
    tolerance > 0
      ? label(LEFT + 6, y(edge) - 5, `tolerance: ${tickText(tolerance)} points`, 'small') : null,
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
  const { run, eligible } = facts;
  const at = [...run.steps.keys()];
  const inside = at.filter((t) => Number.isFinite(values[t]) && y.holds(values[t]));
  const path = inside.map((t) => `${px(x(run.steps[t]))},${px(y(values[t]))}`).join(' ');
  const dots = at.map((t) => {
    const left = x(run.steps[t]);
    if (Number.isNaN(values[t])) return label(left, y.start - 3, '×', 'lost', 'middle');
    const up = y(values[t]);
    if (!y.holds(values[t])) return line(left, up, left, up + (up === y.start ? -5 : 5), 'off');
    const kind = eligible[t] ? `dot r${facts.levels[t]}` : 'dot out';
    return s('circle', { cx: px(left), cy: px(up), r: eligible[t] ? 4.5 : 3, class: kind },
      s('title', {}, facts.hover(t)));
  });
  const marks = facts.marks.map((mark, i) =>
    SHAPES[i % SHAPES.length](x(run.steps[mark.index]), y(values[mark.index]), 8 + 2.5 * i,
      `mark rule${i}`));
  return [s('polyline', { points: path, class: 'path' }), dots, marks];
}

/** Which of the colours each checkpoint has: 0 for the best value among the eligible. */
function levelsOf(values, eligible) {
  const inside = values.filter((_, t) => eligible[t]);
  const low = Math.min(...inside);
  const width = Math.max(...inside) - low;
  return values.map((v) => (width === 0 || !Number.isFinite(v)
    ? 0 : Math.min(LEVELS - 1, Math.max(0, Math.trunc((LEVELS * (v - low)) / width)))));
}

/** Which step is chosen as the tolerance grows: [{from, to, step}], drawn with the current one. */
function drawSweep(pieces, current, width) {
  const height = 150;
  const end = pieces[pieces.length - 1].to;
  const steps = pieces.map((piece) => piece.step);
  const x = scaleOf(0, end, LEFT + 6, width - RIGHT - 6);
  const low = Math.min(...steps);
  const high = Math.max(...steps);
  const pad = 0.1 * (high - low) || 1;
  const y = scaleOf(low - pad, high + pad, height - 40, TOP);
  const bars = pieces.map((piece) => {
    const now = piece.from <= current && (current < piece.to || piece.to === end);
    return line(x(piece.from), y(piece.step), Math.max(x(piece.to), x(piece.from) + 2),
      y(piece.step), `piece${now ? ' now' : ''}`);
  });
  const numbers = ticksBetween(0, end, 8).map((v) =>
    label(x(v), height - 22, tickText(v), 'tick', 'middle'));
  return s('svg', {
    viewBox: `0 0 ${width} ${height}`, role: 'img', class: 'plot', style: `max-width:${width}px`,
    'aria-label': 'Chosen step for every tolerance: ' +
      pieces.map((p) => `${p.step} from ${shown(p.from, POINTS)}`).join(', '),
  }, frame('Chosen step by tolerance', x, y, 3), bars,
  line(x(current), TOP, x(current), height - 40, 'guide rule1'), numbers,
  label(width - RIGHT, height - 6, 'tolerance in points', 'axis', 'end'));
}
