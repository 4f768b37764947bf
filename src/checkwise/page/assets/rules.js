// The rules, computed from exact inputs. Each function mirrors one of checkwise.selection.
//
// A run: {steps, domains, counts, correct, accuracy, diverged, values, pooled, draw}, where values
// and correct are [T·E] by checkpoint, pooled is [T]. A setting: {rule, delta, threshold, q,
// objectives, weights, worst}, where rule is an entry of the page's list and delta a decimal().
// A rule of the kind `reported` is not computed here: each run holds the choice that Python made.

const ETA = 1e-12;
const SLACK_PP = 1e-9;
const NEAR = 1e-9;
const ALPHA = 0.05;
const views = new WeakMap();

/** One run under one weighting: where every checkpoint stands in accuracy, and its columns. */
function viewOf(run, weights, worst) {
  if (!views.has(run)) views.set(run, {});
  const mine = views.get(run);
  const name = `${weights}|${worst}`;
  mine[name] ??= { run, weights, worst, columns: {}, ...standing(run, weights, worst) };
  return mine[name];
}

/** Mean (or worst-domain) accuracy as whole units over one denominator, or floats over 1. */
function standing(run, weights, worst) {
  const T = run.steps.length;
  const exact = run.correct !== null;
  let { units, denominator } = exact ? wholeUnits(run, weights, worst) : { denominator: 1 };
  if (!exact) {
    units = rows(run, run.accuracy, (row, t) =>
      run.diverged[t] ? 0 : worst ? Math.min(...row) : mean(row, run, weights));
  }
  let best = null;
  for (let t = 0; t < T; t++) {
    if (!run.diverged[t] && (best === null || units[t] > best)) best = units[t];
  }
  const accuracy = new Float64Array(T).fill(NaN);
  const gap_pp = new Float64Array(T).fill(NaN);
  for (let t = 0; t < T; t++) {
    if (run.diverged[t]) continue;
    const below = best - units[t];
    const big = typeof below === 'bigint';
    accuracy[t] = big ? ratio(units[t], denominator) : units[t] / denominator;
    gap_pp[t] = big ? ratio(100n * below, denominator) : (100 * below) / denominator;
  }
  const order = accuracyOrder(units, run.diverged, exact ? null : SLACK_PP / 100);
  return { exact, units, denominator, best, accuracy, gap_pp, order };
}

/** One right answer in domain e is worth 1/worth[e]. */
function worth(run, weights, worst) {
  const counts = run.counts.map(BigInt);
  const E = BigInt(counts.length);
  const total = counts.reduce((sum, n) => sum + n, 0n);
  return counts.map((n) => (worst ? n : weights === 'sample' ? total : E * n));
}

function wholeUnits(run, weights, worst) {
  const over = worth(run, weights, worst);
  const denominator = lcm(over);
  const factors = over.map((n) => denominator / n);
  const small = denominator < 2n ** 46n; // then units and 100 times units are exact doubles
  const factor = small ? factors.map(Number) : factors;
  const units = rows(run, run.correct, (row) => {
    const each = Array.from(row, (c, e) => (small ? c * factor[e] : BigInt(c) * factor[e]));
    return worst ? each.reduce((a, b) => (b < a ? b : a)) : each.reduce((a, b) => a + b);
  });
  return { units, denominator: small ? Number(denominator) : denominator };
}

function rows(run, table, of) {
  const E = run.domains.length;
  return Array.from(run.steps, (_, t) => of(table.subarray(t * E, (t + 1) * E), t));
}

/** Σ w_e·m_e; the sum is rounded once, so the order of domains cannot matter. */
function mean(row, run, weights) {
  if (weights === 'equal' || run.counts.every((n) => n === run.counts[0])) {
    return fsum(row) / row.length;
  }
  const total = run.counts.reduce((sum, n) => sum + n, 0);
  return fsum(Array.from(row, (v, e) => (run.counts[e] / total) * v));
}

/** Dense rank by accuracy, 0 for the best; diverged checkpoints come last. */
function accuracyOrder(units, diverged, slack) {
  const order = new Int32Array(units.length).fill(units.length);
  const usable = [...order.keys()].filter((t) => !diverged[t]);
  usable.sort((a, b) => (units[a] > units[b] ? -1 : units[a] < units[b] ? 1 : a - b));
  let rank = -1;
  let head = null;
  for (const t of usable) {
    if (head === null || (slack === null ? units[t] < head : units[t] < head - slack)) {
      rank += 1;
      head = units[t];
    }
    order[t] = rank;
  }
  return order;
}

/** Whether a run has a metric under a weighting: means alone cannot be weighted anew. */
function carries(run, name, weights, worst) {
  if (name === 'accuracy' || name in run.values) return true;
  return name in run.pooled && weights === 'equal' && !worst;
}

/** A metric over the checkpoints, [T]. */
function column(view, name) {
  if (name === 'accuracy') return view.accuracy;
  const { run, weights, worst } = view;
  view.columns[name] ??= run.pooled[name] ??
    Float64Array.from(rows(run, run.values[name], (row) => {
      if (!worst) return mean(row, run, weights);
      return run.higher.has(name) ? Math.min(...row) : Math.max(...row);
    }));
  return view.columns[name];
}

/** A metric with the sign that makes smaller better. */
function errorOf(view, name) {
  const values = column(view, name);
  return view.run.higher.has(name) ? values.map((v) => -v) : values;
}

/** The feasible set: at most delta points below the best accuracy, exactly. */
function within(view, delta) {
  const { run, units, best } = view;
  let allowed = delta.allowed ?? delta.value / 100 + SLACK_PP / 100;
  if (view.exact && delta.allowed === undefined) {
    const whole = (delta.num * BigInt(view.denominator)) / (delta.den * 100n);
    allowed = typeof best === 'bigint' ? whole : Number(whole);
  }
  return units.map((u, t) => !run.diverged[t] && best - u <= allowed);
}

/** Checkpoints whose accuracy reaches an absolute number of points, exactly. */
function atLeast(view, threshold) {
  const { run, units } = view;
  let least = threshold.value / 100 - SLACK_PP / 100;
  if (view.exact) {
    const over = threshold.den * 100n;
    const whole = (threshold.num * BigInt(view.denominator) + over - 1n) / over;
    least = typeof view.best === 'bigint' ? whole : Number(whole);
  }
  return units.map((u, t) => !run.diverged[t] && u >= least);
}

/** What each kind of rule says: a score (smaller is better) and who may be chosen. */
const RANKS = {
  source(view) {
    const eligible = within(view, decimal('0'));
    return { eligible, score: view.gap_pp.map((gap, t) => (eligible[t] ? 0 : gap)) };
  },
  early: (view, s) => ({
    eligible: within(view, s.delta), score: Float64Array.from(view.run.steps),
  }),
  random(view, s) {
    const eligible = within(view, s.delta);
    const among = [...eligible.keys()].filter((t) => eligible[t]);
    const drawn = among[Number(view.run.draw % BigInt(among.length))];
    return { eligible, score: Float64Array.from(eligible, (_, t) => (t === drawn ? 0 : 1)) };
  },
  pure: (view, s) => ({
    eligible: Array.from(view.run.diverged, (lost) => !lost),
    score: errorOf(view, s.rule.objectives[0]),
  }),
  wald: (view, s) => ({ eligible: atLeast(view, s.threshold), score: errorOf(view, 'ece') }),
  reported(view, s) {
    const { ranked: best } = view.run.reported[s.rule.name];
    const place = view.run.steps.map((_, t) => best.indexOf(t));
    return {
      eligible: place.map((at) => at >= 0),
      score: Float64Array.from(place, (at) => (at < 0 ? NaN : at)),
    };
  },
  constrained(view, s) {
    const eligible = within(view, s.delta);
    const names = objectivesOf(s);
    const normalised = names.map((name) => rescale(errorOf(view, name), eligible));
    return { eligible, score: distance(normalised, s.q, eligible), normalised };
  },
};

function objectivesOf(s) {
  const own = s.rule.kind === 'reported' || s.rule.objectives.length;
  return own ? s.rule.objectives : s.objectives;
}

/** Min–max over the feasible set: (m − a)/(b − a + η), or 0 where b = a. */
function rescale(errors, feasible) {
  let low = Infinity;
  let high = -Infinity;
  for (let t = 0; t < errors.length; t++) {
    if (!feasible[t]) continue;
    if (errors[t] < low) low = errors[t];
    if (errors[t] > high) high = errors[t];
  }
  const width = high - low + ETA;
  return errors.map((e) => (high > low ? (e - low) / width : 0));
}

/** D_q over the objectives; NaN outside the feasible set. */
function distance(normalised, q, feasible) {
  return Float64Array.from(feasible, (inside, t) => {
    if (!inside) return NaN;
    let total = q === Infinity ? -Infinity : 0;
    for (const values of normalised) {
      const v = values[t];
      if (q === Infinity) total = Math.max(total, v);
      else total += q === 1 ? v : v * v;
    }
    return q === 2 ? Math.sqrt(total) : total;
  });
}

/** Rank a run's checkpoints; index is the choice, −1 where no checkpoint may be chosen. */
function select(run, setting) {
  const view = viewOf(run, setting.weights, setting.worst);
  const ranking = RANKS[setting.rule.kind](view, setting);
  return { run, view, setting, ...ranking, index: choose(ranking, view.order, setting.rule) };
}

/** The lexicographically smallest (score, accuracy order, step) among the eligible. */
function choose({ score, eligible }, order, rule) {
  let best = -1;
  for (let t = 0; t < score.length; t++) {
    if (!eligible[t] || Number.isNaN(score[t])) continue;
    if (best < 0 || score[t] < score[best] ||
        (rule.tiesByAccuracy && score[t] === score[best] && order[t] < order[best])) best = t;
  }
  return best;
}

/** The choice as the tolerance grows up to `limit` points: [{from, to, index}], merged. */
function sweep(run, setting, limit) {
  const view = viewOf(run, setting.weights, setting.worst);
  const at = [...run.steps.keys()].filter((t) => view.gap_pp[t] <= limit);
  at.sort((a, b) => view.gap_pp[a] - view.gap_pp[b]);
  const pieces = [];
  for (const t of at) {
    const delta = { allowed: view.best - view.units[t] };
    const { index } = select(run, { ...setting, delta });
    const last = pieces[pieces.length - 1];
    if (last && last.index === index) continue;
    if (last && last.from === view.gap_pp[t]) last.index = index;
    else {
      if (last) last.to = view.gap_pp[t];
      pieces.push({ from: view.gap_pp[t], to: limit, index });
    }
  }
  return pieces;
}

/** Checkpoints best first; those not eligible follow, by accuracy. */
function ranked({ score, eligible, view, setting }) {
  const tie = (t) => (eligible[t] && !setting.rule.tiesByAccuracy ? 0 : view.order[t]);
  return [...score.keys()].sort((a, b) =>
    eligible[b] - eligible[a] ||
    (eligible[a] ? score[a] - score[b] : 0) || tie(a) - tie(b) || a - b);
}

/** Other eligible checkpoints with exactly the chosen score, and within rounding and η of it. */
function tiesOf({ score, eligible, index, normalised = [] }) {
  let offset = 0;
  for (const values of normalised) {
    const largest = Math.max(...values.filter((_, t) => eligible[t]));
    if (largest > 0) offset += 1 - largest;
  }
  const others = [...score.keys()].filter((t) => eligible[t] && t !== index);
  const chosen = score[index];
  return {
    ties: others.filter((t) => score[t] === chosen),
    near: others.filter((t) => score[t] !== chosen && Math.abs(score[t] - chosen) < NEAR + offset),
  };
}

/** The bound on population source accuracy: {radius_pp, bound_pp}, or why there is none. */
function guarantee(selection) {
  const { run, view, setting } = selection;
  if (setting.rule.kind === 'reported') return run.reported[setting.rule.name].bound;
  if (!setting.rule.constrained) {
    return { none: `Rule ${setting.rule.name} does not keep accuracy within a tolerance of the ` +
      'best, so no bound holds; source-acc and the ac- rules have one.' };
  }
  if (!run.counts) {
    return { none: 'The bound needs the number of validation examples per domain, which this ' +
      'run does not carry: add a column `n`, or --n to a log.' };
  }
  const T = run.evaluated;
  const E = run.counts.length;
  const total = run.counts.reduce((sum, n) => sum + n, 0);
  const share = (n) => (view.weights === 'sample' ? n / total : 1 / E);
  const spread = view.worst
    ? Math.log((2 * T * E) / ALPHA) / (2 * Math.min(...run.counts))
    : (Math.log((2 * T) / ALPHA) / 2) * fsum(run.counts.map((n) => share(n) ** 2 / n));
  const radius_pp = 100 * Math.sqrt(spread);
  const delta = setting.rule.takes.includes('delta_pp') ? setting.delta.value : 0;
  return { radius_pp, bound_pp: delta + 2 * radius_pp };
}
