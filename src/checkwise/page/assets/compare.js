// Rules over all runs: what they give up on the source side, and paired differences on the target.

const LOSS_PP = 1;
const SAME = 1e-12; // means over held-out domains carry rounding; a smaller difference is none

/** A setting on every run; null where some run has no checkpoint to choose. */
function selectAll(runs, setting) {
  const chosen = runs.map((run) => select(run, setting));
  return chosen.every((c) => c.index >= 0) ? chosen : null;
}

/** A held-out metric of every choice; `expected` takes the mean over the eligible checkpoints. */
function targetsOf(chosen, metric, expected) {
  return chosen.map(({ run, eligible, index }) => {
    const values = run.targets[metric];
    if (!expected) return values[index];
    const inside = [...eligible.keys()].filter((t) => eligible[t]);
    return inside.reduce((sum, t) => sum + values[t], 0) / inside.length;
  });
}

/** Differences to the reference in one metric, on the reported scale, with their interval. */
function contrast(mine, theirs, metric, keys, quantiles) {
  const values = [];
  const kept = [];
  mine.forEach((value, i) => {
    const difference = metric.scale * (value - theirs[i]);
    if (Number.isFinite(difference)) {
      values.push(difference);
      kept.push(i);
    }
  });
  const n = values.length;
  const better = metric.higher ? values : values.map((v) => -v);
  const sorted = Float64Array.from(values).sort();
  const of = kept.map((i) => keys[i]);
  const units = n < 2 ? {} : unitIntervals(values, of, quantiles);
  const { groups, mean, low, high, over, crossed } = leadingInterval(values, of, units, quantiles);
  return {
    metric, values, n, kept, units, groups, mean, low, high, over, crossed,
    missing: mine.length - n,
    median: n ? percentile(sorted, 50) : NaN,
    wins: better.filter((v) => v > SAME).length,
    ties: better.filter((v) => Math.abs(v) <= SAME).length,
    losses: better.filter((v) => v < -SAME).length,
    lose_1pp: n && metric.name === 'accuracy'
      ? values.filter((v) => v <= -LOSS_PP + 1e-9).length / n : NaN,
  };
}

/** What a rule did where it looks. */
function sourceFacts(chosen, usual) {
  const sizes = chosen.map(({ eligible }) => eligible.filter(Boolean).length).sort((a, b) => a - b);
  const n = chosen.length;
  return {
    gap: chosen.reduce((sum, c) => sum + c.view.gap_pp[c.index], 0) / n,
    median: percentile(Float64Array.from(sizes), 50),
    differ: chosen.filter((c, i) => c.index !== usual[i].index).length,
    alone: sizes.filter((size) => size === 1).length,
    mean: (name) => chosen.reduce((sum, c) => sum + column(c.view, name)[c.index], 0) / n,
  };
}

function shownInterval(one) {
  if (one.n < 2) return one.n ? 'no interval from one run' : 'no runs';
  if (Number.isNaN(one.low)) return 'no interval from one block';
  return `[${shown(one.low, one.metric)}, ${shown(one.high, one.metric)}]`;
}

/** One difference as a clause: lowered target NLL by 0.021 [0.004, 0.040]. */
function effect(one) {
  const { metric } = one;
  const points = metric.percent ? ' points' : '';
  if (verdictOf(one).direction === 'unclear') {
    const brackets = Number.isNaN(one.low) ? '' : ` ${shownInterval(one)}`;
    return `changed target ${metric.title} by ${shown(one.mean, metric, true)}${points}${brackets}`;
  }
  const fell = one.mean < 0;
  const [low, high] = fell ? [-one.high, -one.low] : [one.low, one.high];
  return `${fell ? 'lowered' : 'raised'} target ${metric.title} by ` +
    `${shown(Math.abs(one.mean), metric)}${points} [${shown(low, metric)}, ${shown(high, metric)}]`;
}
