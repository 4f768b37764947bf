// A selection in words: the same sentences as Selection.explain() in Python.

const CALLED = {
  nll: 'NLL', brier: 'Brier score', ece: 'soft ECE', cwece: 'soft CwECE', hard_ece: 'ECE',
  hard_cwece: 'CwECE', worst_class_accuracy: 'worst-class accuracy',
};

function explain(selection) {
  const { run, setting, index } = selection;
  if (setting.rule.kind === 'reported') return run.reported[setting.rule.name].words;
  const parts = [standingIs, because, coarse, tiesAre, atTheEdge, divergedAre];
  const said = parts.map((say) => say(selection)).filter(Boolean);
  return [`Use step ${run.steps[index]}.`, ...said].join(' ');
}

function called(run, name) {
  return name === 'nll' && run.loss ? 'loss' : CALLED[name] ?? name;
}

/** What the choice costs and gains against the most accurate checkpoint. */
function standingIs(selection) {
  const { run, view, index } = selection;
  const best = view.order.indexOf(0);
  const names = rankedBy(selection).filter((name) => name !== 'accuracy');
  const others = [...new Set(names)].map((name) => {
    const values = column(view, name);
    const beside = index === best ? '' : `, ${against(values[index], values[best])}`;
    return `${called(run, name)} ${apart(values[index], values[best])}${beside}`;
  });
  const accuracy = `${kindOf(run, view)} ${percent(view, index)}, ${distanceOf(selection, best)}`;
  return `${[accuracy, ...others].join('; ')}.`;
}

function kindOf(run, view) {
  if (run.domains.length === 1) {
    return run.domains[0] === 'validation' ? 'Validation accuracy' : `Accuracy on ${run.domains[0]}`;
  }
  const more = run.domains.length - 12;
  const names = more > 0
    ? `${run.domains.slice(0, 12).join(', ')} and ${more} more` : listed(run.domains);
  const which = view.worst ? 'Worst' : view.weights === 'equal' ? 'Mean' : 'Weighted mean';
  return `${which} accuracy of ${names}`;
}

function percent(view, t) {
  return `${fixed(100 * view.accuracy[t], 2)}%`;
}

function distanceOf({ run, view, index }, best) {
  if (view.order[index] === 0) {
    return `the best of ${checkpoints(run)}${index === best ? '' : `, as at step ${run.steps[best]}`}`;
  }
  const gap = fixed(view.gap_pp[index], 2);
  const far = gap === '0.00' ? 'less than 0.01 points' : inPoints(gap);
  return `${far} below the best (${percent(view, best)} at step ${run.steps[best]})`;
}

function against(here, there) {
  const share = there > 0 ? here / there - 1 : NaN;
  const shown = apart(there, here);
  if (here === there || !Number.isFinite(share)) return `there ${shown}`;
  const text = fixed(100 * Math.abs(share), 0);
  const amount = text === '0' ? 'less than 1' : text;
  return `${amount}% ${share < 0 ? 'less' : 'more'} than there (${shown})`;
}

/** A number with as many digits as tell it from another. */
function apart(one, other) {
  let digits = 3;
  while (digits < 12 && one !== other && general(one, digits) === general(other, digits)) digits += 2;
  return general(one, digits);
}

function checkpoints(run) {
  const kept = run.evaluated > run.steps.length ? ` kept of ${run.evaluated}` : '';
  return `${counted(run.steps.length, 'checkpoint')}${kept}`;
}

function rankedBy({ setting }) {
  if (['source', 'early', 'random'].includes(setting.rule.kind)) return [];
  return setting.rule.kind === 'wald' ? ['ece'] : objectivesOf(setting);
}

function because(selection) {
  const { run, eligible, setting } = selection;
  const { rule } = setting;
  const size = eligible.filter(Boolean).length;
  if (run.steps.length === 1) return 'There is no other checkpoint.';
  if (rule.takes.includes('delta_pp')) {
    const within = `within ${inPoints(setting.delta.text)} of the best`;
    return size === 1
      ? `No other checkpoint is ${within}, so this is simply the most accurate.`
      : `${size} of ${checkpoints(run)} are ${within}; ${takenFor(selection)}.`;
  }
  if (rule.takes.includes('threshold_pp')) {
    return `${size} of ${checkpoints(run)} ${size === 1 ? 'reaches' : 'reach'} ` +
      `${inPoints(setting.threshold.text)}; ${takenFor(selection)}.`;
  }
  if (rule.name === 'source-acc') {
    return size === 1 ? '' : `${size} checkpoints share that accuracy; this is the earliest.`;
  }
  if (rule.name.startsWith('pure-')) {
    return `It has the lowest ${called(run, rule.objectives[0])} of ${checkpoints(run)}, ` +
      'whatever its accuracy.';
  }
  return rule.constrained ? '' : `${rule.name} does not keep accuracy near its best.`;
}

function takenFor(selection) {
  const { run, view, eligible, setting, index } = selection;
  const names = rankedBy(selection);
  if (setting.rule.kind === 'early') return 'this is the earliest';
  if (setting.rule.kind === 'random') return 'this one was drawn at random';
  const leads = names.every((name) => {
    const errors = errorOf(view, name);
    return errors.every((error, t) => !eligible[t] || errors[index] <= error);
  });
  const own = setting.rule.kind === 'constrained';
  if (leads || (names.length === 1 && own)) return `this one has ${extremes(run, names)}`;
  if (own) return `this one balances ${listed(names.map((name) => called(run, name)))} best`;
  return `${setting.rule.name} takes this one`;
}

function extremes(run, names) {
  const which = names.map((name) => (run.higher.has(name) ? 'highest' : 'lowest'));
  return listed(names.map((name, i) =>
    `${which[i] === which[i - 1] ? '' : `the ${which[i]} `}${called(run, name)}`));
}

/** One validation example weighs more than the tolerance. */
function coarse({ run, view, setting }) {
  const { rule, delta } = setting;
  if (run.counts === null || !rule.takes.includes('delta_pp') || delta.num === 0n) return '';
  const over = worth(run, view.weights, view.worst);
  const most = over.reduce((a, b) => (b > a ? b : a));
  if (delta.num * most >= 100n * delta.den) return '';
  const alike = over.every((n) => n === most);
  const ties = run.correct !== null && delta.num * lcm(over) < 100n * delta.den;
  return `${listed(run.counts.map(String))} validation examples: one is ` +
    `${alike ? '' : 'at least '}${fixed(ratio(100n, most), 2)} points, more than the tolerance ` +
    `of ${delta.text}${ties ? ', which keeps only ties with the best' : ''}.`;
}

function tiesAre(selection) {
  const { run, setting } = selection;
  if (['source', 'early', 'random'].includes(setting.rule.kind)) return '';
  const { ties, near } = tiesOf(selection);
  const steps = (at, word) =>
    `${word}${at.length === 1 ? '' : 's'} ${listed(at.map((t) => String(run.steps[t])))}`;
  const by = setting.rule.tiesByAccuracy
    ? 'higher accuracy, then the earlier step' : 'the earlier step';
  const said = [];
  if (ties.length) said.push(`Exactly tied with ${steps(ties, 'step')}; broken by ${by}.`);
  if (near.length) {
    said.push(`It cannot be told from ${steps(near, 'step')}: rounding decides among them, not ` +
      'the data.');
  }
  return said.join(' ');
}

function atTheEdge({ run, view, index }) {
  const usable = [...run.steps.keys()].filter((t) => !run.diverged[t]);
  if (usable.length < 2) return '';
  if (index === usable[usable.length - 1] && run.endsEarly) {
    return 'It is the last checkpoint that was kept; the training went on after it.';
  }
  if (index === usable[usable.length - 1]) {
    return 'It is the last checkpoint: training longer might give a better one.';
  }
  return index === usable[0] && !run.beginsLate ? first(run.steps[index], view.gap_pp[index]) : '';
}

function first(step, gap) {
  if (gap > 0) {
    return 'It is the first checkpoint: one that was not recorded might do as well.';
  }
  return step === 0
    ? 'It is step 0, and no later checkpoint has a higher accuracy.'
    : 'It is the first checkpoint, and no later one has a higher accuracy: record earlier ones ' +
      'too, they might do as well.';
}

function divergedAre({ run }) {
  const count = run.diverged.reduce((sum, lost) => sum + lost, 0);
  return count ? `${counted(count, 'diverged checkpoint')} ${count === 1 ? 'was' : 'were'} left out.`
    : '';
}

function inPoints(text) {
  return `${text} ${text === '1' ? 'point' : 'points'}`;
}

function counted(things, name) {
  return `${things} ${name}${things === 1 ? '' : 's'}`;
}

function listed(parts) {
  if (parts.length === 1) return parts[0];
  return `${parts.slice(0, -1).join(', ')} and ${parts[parts.length - 1]}`;
}
