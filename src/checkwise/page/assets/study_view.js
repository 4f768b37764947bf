// All runs of a study at the current rule and tolerance, as Python compared them.

function renderStudy(page, setting) {
  const { data, held } = page;
  const { start: first, study } = data;
  const n = data.runs.length;
  const facts = factsAt(study.source, setting);
  byId('over-runs').textContent = `Over all ${n} runs: ${setting.rule.name} differs from ` +
    `${first.reference} in ${facts.differ}, gives up ${shown(facts.gap, 2)} points of validation ` +
    `accuracy on average, and had only one checkpoint to choose from in ${facts.alone}; the median ` +
    `run has ${facts.median}.`;
  renderSourceRules(page, setting);
  if (byId('runs-table').parentElement.open) renderRuns(page, setting);
  if (held?.open) renderTargets(page, setting);
}

/** What holds from the last tolerance on at which something changed. */
function factsAt(table, { rule, stop }) {
  const pieces = table[rule.name];
  return pieces.findLast(([start]) => start <= stop)[1];
}

/** Every run: what was chosen, and where accuracy alone would have gone. */
function renderRuns(page, setting) {
  const rows = page.data.runs.map((run, number) => ({
    run, number, chosen: chosenIn(page, { ...setting, run }),
    usual: chosenIn(page, usualAt(page, { ...setting, run })),
  }));
  const text = (label, of) => ({ label, value: of, cell: (r) => String(of(r)) });
  const number = (label, of) => ({ label, value: of, cell: (r) => shown(of(r), 2) });
  sortableTable(byId('runs-table'), {
    caption: 'What is chosen in every run; a run’s name opens it above.', name: 'choices', rows,
    columns: [
      text('run', (r) => r.run.name),
      text('step', (r) => r.run.steps[r.chosen.index]),
      text(`${page.data.start.reference} step`, (r) => r.run.steps[r.usual.index]),
      number('accuracy (%)', (r) => r.chosen.view.accuracy[r.chosen.index]),
      number('below the best (points)', (r) => r.chosen.view.gap[r.chosen.index]),
      text('could have been chosen', (r) => r.chosen.near.filter(Boolean).length),
    ],
    open: (r) => {
      page.form.elements.namedItem('run').value = String(r.number);
      render(page);
      byId('explore').scrollIntoView({ block: 'start' });
      page.form.elements.namedItem('run').focus({ preventScroll: true });
    },
  });
}

function renderSourceRules(page, setting) {
  const { study, rules, start: first } = page.data;
  const number = (label, of, decimals) =>
    ({ label, value: of, cell: (r) => shown(of(r), decimals) });
  const count = (label, of) => ({ label, value: of, cell: (r) => String(of(r)) });
  sortableTable(byId('rules-source'), {
    caption: `The rules at this tolerance, over ${page.data.runs.length} runs; source validation`,
    name: 'rules-source',
    rows: rules.map((rule) => ({ rule, facts: factsAt(study.source, { ...setting, rule }) })),
    kind: (row) => (row.rule.name === setting.rule.name ? 'chosen' : null),
    columns: [
      { label: 'rule', value: (r) => r.rule.name, cell: (r) => r.rule.name },
      number('mean below the best (points)', (r) => r.facts.gap, 2),
      count('median to choose from', (r) => r.facts.median),
      count(`differs from ${first.reference}`, (r) => r.facts.differ),
      count('only one to choose from', (r) => r.facts.alone),
    ],
  });
}

/** The held-out results of every rule at this tolerance. */
function renderTargets(page, setting) {
  const { study, start: first } = page.data;
  const mine = study.answers[setting.rule.name];
  byId('live-answer').textContent = mine ? factsAt(study.answers, setting)
    : `${setting.rule.name} is what the others are compared with.`;
  const asReported = setting.rule.name === first.rule &&
    (!setting.rule.tolerance || setting.stop === first.stop);
  for (const id of ['live-answer', 'rules-target']) byId(id).hidden = asReported;
  byId('live-note').textContent = asReported
    ? 'These are the settings of the report, whose results follow.'
    : 'These are not the settings that the report was written with: this is exploration, and the ' +
      'best of many settings looks better than it is.';
  byId('live-note').classList.toggle('caution', !asReported);
  const rows = Object.keys(study.targets).map((name) =>
    ({ name, ...factsAt(study.targets, { ...setting, rule: { name } }) }));
  const column = (metric, i) => ({
    label: metric.title, small: metric.better, value: (r) => r.cells[i].mean ?? NaN,
    cell: ({ cells }) => [
      cells[i].found === 'unclear' ? null : h('em', { class: cells[i].found }, cells[i].found), ' ',
      h('b', {}, cells[i].shown), h('span', { class: 'ci' }, cells[i].interval),
      h('small', {}, cells[i].counts)],
    csv: ['mean', 'low', 'high', 'wins', 'ties', 'losses', 'n'].map((part) =>
      [`${metric.name}_${part}`, (r) => r.cells[i][part] ?? NaN]),
  });
  sortableTable(byId('rules-target'), {
    caption: `The rules at this tolerance − ${study.reference}, paired by run; small figures: runs ` +
      'better / equal / worse',
    name: 'rules-heldout', rows,
    kind: (row) => (row.name === setting.rule.name ? 'chosen' : null),
    columns: [
      { label: 'rule', value: (r) => r.name, cell: (r) => [r.name, h('small', {}, r.sizes)] },
      ...study.metrics.map(column),
    ],
  });
}
