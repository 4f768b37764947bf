// A selection in words: the same sentences as Selection.explain() in Python.

function explain(selection) {
  const { run, setting } = selection;
  if (setting.rule.kind === 'reported') return run.reported[setting.rule.name].words;
  const parts = [chosenIs, feasibleAre, coarse, runnerUp, tiesAre, atTheEdge, divergedAre];
  return parts.map((say) => say(selection)).filter(Boolean).join(' ');
}

function chosenIs({ run, view, setting, index }) {
  const one = run.domains.length === 1 ? 'validation' : 'mean source';
  const kind = view.worst ? 'worst-domain source accuracy' : `${one} accuracy`;
  const gap = fixed(view.gap_pp[index], 2);
  const distance = gap === '0.00' ? 'the best' : `${gap} points below the best`;
  const sets = validation(run.domains);
  const kept = run.evaluated > run.steps.length ? ` kept of ${run.evaluated}` : '';
  return `${setting.rule.name} chose step ${run.steps[index]}: ${kind} ` +
    `${fixed(100 * view.accuracy[index], 2)}%${sets && ` (${sets})`}, ` +
    `${distance} of ${counted(run.steps.length, 'checkpoint')}${kept}.`;
}

function validation(domains) {
  if (domains.length === 1 && domains[0] === 'validation') return '';
  const more = domains.length - 12;
  return `validation: ${domains.slice(0, 12).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function feasibleAre({ eligible, setting }) {
  const { rule } = setting;
  const size = eligible.filter(Boolean).length;
  if (rule.takes.includes('delta_pp')) {
    return size === 1
      ? `It is the only one within ${inPoints(setting.delta.text)} of the best, so accuracy alone ` +
        'decided.'
      : `${size} are within ${inPoints(setting.delta.text)} of the best.`;
  }
  if (rule.takes.includes('threshold_pp')) {
    return `${size} ${size === 1 ? 'reaches' : 'reach'} ${inPoints(setting.threshold.text)}.`;
  }
  if (rule.name === 'source-acc') {
    return size === 1 ? '' : `${size} share that accuracy; the earliest was taken.`;
  }
  return rule.constrained ? '' : 'Accuracy was not constrained.';
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

/** Two numbers with as many digits as tell them apart. */
function apart(one, other) {
  let digits = 4;
  while (digits < 12 && one !== other && general(one, digits) === general(other, digits)) digits += 2;
  return `${general(one, digits)} against ${general(other, digits)}`;
}

function runnerUp(selection) {
  const { run, view, setting, eligible, score, index } = selection;
  const names = setting.rule.kind === 'wald' ? ['ece'] : objectivesOf(setting);
  const silent = ['source', 'early', 'random'].includes(setting.rule.kind);
  if (silent || eligible.filter(Boolean).length < 2) return '';
  const other = ranked(selection)[1];
  const parts = names.map((name) => {
    const values = column(view, name);
    return `${name} ${apart(values[other], values[index])}`;
  });
  return `The runner-up, step ${run.steps[other]}, has ${listed(parts)} ` +
    `(score ${general(score[other], 4)} against ${general(score[index], 4)}).`;
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
    said.push(`By score it cannot be told from ${steps(near, 'step')}: the choice among them is ` +
      'decided by rounding and the offset eta, not by the data.');
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
